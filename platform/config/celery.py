from parley.celery import app as app
