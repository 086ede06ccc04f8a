#!/bin/sh
# After installation and removal: the loader's cache follows /etc/ld.so.conf.d. dpkg has removed /opt if nothing else is
# in it.
ldconfig
[ -d "${DPKG_ROOT-}/opt" ] || mkdir -m 755 "${DPKG_ROOT-}/opt"
