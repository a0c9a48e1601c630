from parley.uvicorn_http import BoundedHttp as BoundedHttp
