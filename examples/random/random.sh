#!/bin/sh
# Prints a random number at random intervals of 0.1 to 2 seconds, without end.

# random N prints an integer from 0 to N-1.
random() {
	echo $(($(od -An -N4 -tu4 /dev/urandom) % $1))
}

while :; do
	echo "$(random 1000000)"
	tenths=$(($(random 20) + 1))
	sleep "$((tenths / 10)).$((tenths % 10))"
done
