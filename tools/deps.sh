#!/usr/bin/env bash
echo "to come" >&2; exit 1
