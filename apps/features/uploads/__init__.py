"""Large files come in pieces, may be cut off at any byte, and go on from there. Messages then name them."""
