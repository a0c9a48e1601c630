"""Connected accounts on people's pages."""
