#!/bin/sh
# After installation and removal: the loader's cache follows /etc/ld.so.conf.d.
ldconfig
