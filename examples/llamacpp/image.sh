#!/usr/bin/env bash
# image.sh: make prepared/image.tar, an image that holds llama-server with the
# folder of its libraries, and from this host the libraries of the system that
# they need. No base image, no network, no daemon.
#
# Needs what prepare.sh made, ldd, and bin/sotabuild (make build). The same files
# give the same bytes, so it may be called again.
set -euo pipefail
cd "$(dirname "$0")"
server=$(readlink -f prepared/server)

# What the program and its own libraries need beside them: "NAME => PATH (…)",
# or "PATH (…)" for the loader.
mapfile -t libraries < <(
	for f in "$server"/llama-server "$server"/*.so*; do
		LD_LIBRARY_PATH= ldd "$f"
	done | awk '/=> \//{print $3; next} /^\t\//{print $1}' | grep -vF "$server/" | sort -u
)
[ "${#libraries[@]}" -gt 0 ] || { echo "image.sh: ldd names no library of $server/llama-server" >&2; exit 1; }

args=(--out prepared/image.tar --tag llama-server:example
	--tree "/opt/llama-server=$server" --link /usr/local/bin/llama-server=/opt/llama-server/llama-server)
for l in "${libraries[@]}"; do args+=(--file "$l=$l"); done
../../bin/sotabuild image build "${args[@]}"
