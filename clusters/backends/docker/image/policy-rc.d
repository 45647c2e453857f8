#!/bin/sh
# A package being installed must not start its service: Holdfast starts what a run needs.
exit 101
