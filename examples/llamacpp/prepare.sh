#!/usr/bin/env bash
# prepare.sh: make what campaign.hcl names, below prepared/:
#
#   prepared/server   link to a llama-server with its libraries (build-llama-server.sh)
#   prepared/model    config.json for tinyserve, model.gguf of the same shape for llama-server
#
# Needs python3 with pip; both keep what they fetched below ${XDG_CACHE_HOME:-$HOME/.cache}/sotabuild.
# Safe to call again: what is there and up to date is left alone.
set -euo pipefail
cd "$(dirname "$0")"
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/sotabuild
CONFIG=../models/tiny/config.json

mkdir -p prepared "$CACHE"
exec 8>prepared/.lock
flock 8

server=$(./build-llama-server.sh)
ln -sfn "$(dirname "$server")" prepared/server

made=$(cat prepare.sh make-tiny-gguf.py requirements.txt $CONFIG | sha256sum | cut -d' ' -f1)
if [ "$(cat prepared/.made 2>/dev/null)" = "$made" ]; then exit 0; fi

# The packages lie in a folder of their own, so that nothing is installed into the system's Python.
packages=$CACHE/python-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-$(sha256sum requirements.txt | cut -c1-12)
tmp=$(mktemp -d "$CACHE/.tmp.XXXXXX")
trap 'rm -rf "$tmp" prepared/.model' EXIT
if [ ! -d "$packages" ]; then
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: --target "$tmp/packages" -r requirements.txt
	mv -T "$tmp/packages" "$packages" 2>/dev/null || [ -d "$packages" ] # another clone may have been faster
fi

# The shape is tinyserve's, read from the file that tinyserve reads.
shape=$(python3 - $CONFIG <<'PY'
import json, sys
c = json.load(open(sys.argv[1]))
for flag, name in {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "ffn": "intermediate_size", "heads": "num_attention_heads",
    "kv-heads": "num_key_value_heads", "vocab": "vocab_size", "context": "max_position_embeddings",
}.items():
    print(f"--{flag}", c[name])
PY
)
rm -rf prepared/.model
mkdir prepared/.model
cp $CONFIG prepared/.model/config.json
# shellcheck disable=SC2086 # flags and numbers, one word each
PYTHONPATH=$packages python3 make-tiny-gguf.py --type f32 $shape prepared/.model/model.gguf >&2
rm -rf prepared/model
mv prepared/.model prepared/model
echo "$made" >prepared/.made
