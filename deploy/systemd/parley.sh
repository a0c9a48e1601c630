#!/bin/sh
# /usr/local/bin/parley: Parley's commands for root, as the user and with the settings of the services.
cd /etc/parley && exec runuser --user parley -- /opt/parley/bin/parley "$@"
