#!/bin/sh
# environment.sh DIRECTORY FILE: writes an env file with a variable for each file of a directory, as
# container engines and Kubernetes mount secrets: its name is that of the file, its value the content.
set -eu
umask 077
for file in "$1"/*; do
	[ -f "$file" ] || continue
	printf "%s='%s'\n" "${file##*/}" "$(sed "s/'/'\"'\"'/g" "$file")"
done >"$2.new"
mv "$2.new" "$2"
