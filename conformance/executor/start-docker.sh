#!/usr/bin/env bash
# start-docker.sh: have a Docker daemon that answers, with a tiny local test image.
#
#   start-docker.sh [start]  install what is missing, start dockerd if none answers, wait for it, load
#                            the test image, print `export` lines; safe to call again
#   start-docker.sh stop     end dockerd, only if this script started it
#   start-docker.sh status   exit status 0 if a daemon answers and holds the image
#   start-docker.sh env      print only the `export` lines: eval "$(start-docker.sh env)"
#
# No registry is asked: the image is a static busybox from Debian's busybox-static, packed here. The
# archive is written byte for byte the same each time, so the image ID is the same on every machine
# with the same busybox. No systemd is needed. Run it as root.
#
#   DOCKER_HOST           the daemon to use (unset: /var/run/docker.sock). A daemon is started only
#                         for a unix:// socket.
#   DOCKER_TEST_DIR       pid file, log, image archive         (default /tmp/docker-test)
#   DOCKER_TEST_ROOT      dockerd's --data-root, if it must not be /var/lib/docker. With it the daemon
#                         is a second one beside the machine's: it gets its own --exec-root and
#                         bridge (DOCKER_TEST_BRIDGE, by default
#                         dockertest0, with DOCKER_TEST_SUBNET; no iptables rules), so that a test may kill it. Give it
#                         its own DOCKER_HOST and DOCKER_TEST_DIR too. Never --bridge=none there: a
#                         dockerd that is told so deletes docker0, the first daemon's bridge.
#   DOCKER_TEST_ARGS      further arguments for dockerd, e.g. --live-restore
#   DOCKER_TEST_IMAGE     the image's name                     (default sotabuild-test:busybox)
set -euo pipefail

DIR=${DOCKER_TEST_DIR:-/tmp/docker-test}
IMAGE=${DOCKER_TEST_IMAGE:-sotabuild-test:busybox}
PIDFILE=$DIR/dockerd.pid
BRIDGE=${DOCKER_TEST_BRIDGE:-dockertest0}
SUBNET=${DOCKER_TEST_SUBNET:-172.31.254.1/24}
export DOCKER_HOST=${DOCKER_HOST:-unix:///var/run/docker.sock}
# The classic builder and an empty client configuration: no credential helper, no context.
export DOCKER_BUILDKIT=0 DOCKER_CONFIG=$DIR/config

say() { printf 'start-docker: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# runs PID NAME: whether it is a process of this name. NAME) STATE …: a killed
# one that nobody has waited for yet is a zombie.
runs() { [[ $(sed 's/^[0-9]* (//' "/proc/$1/stat" 2>/dev/null) == "$2) "[!Z]* ]]; }

# alive: print the pid of the dockerd that this script started, if it runs.
alive() {
  local pid
  pid=$(cat "$PIDFILE" 2>/dev/null) && [[ $pid =~ ^[0-9]+$ ]] || return 1
  runs "$pid" dockerd || return 1
  echo "$pid"
}

# `docker version` exits 1 where no daemon answers, whatever the client's own version.
answers() { timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

need() { # need COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

install_packages() {
  missing=()
  need docker docker.io
  if [[ $DOCKER_HOST == unix://* ]] && ! answers; then need dockerd docker.io; fi
  if [[ -n ${DOCKER_TEST_ROOT:-} ]]; then need ip iproute2; fi
  need busybox busybox-static
  # the small busybox of an initramfs is linked dynamically, and would not run alone
  if command -v busybox >/dev/null 2>&1 && ! dpkg-query -W busybox-static >/dev/null 2>&1; then
    missing+=(busybox-static)
  fi
  ((${#missing[@]})) || return 0
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
  say "installing ${missing[*]}"
  apt-cache show docker.io >/dev/null 2>&1 || apt-get -o DPkg::Lock::Timeout=300 update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq \
    --no-install-recommends "${missing[@]}" >"$DIR/apt.log" 2>&1 ||
    { tail -20 "$DIR/apt.log" >&2; die "apt-get install failed"; }
}

start_daemon() {
  if answers; then say "a daemon answers on $DOCKER_HOST"; return 0; fi
  [[ $DOCKER_HOST == unix://* ]] || die "no daemon answers on $DOCKER_HOST"
  [[ $(id -u) -eq 0 ]] || die "must run as root to start dockerd"
  local args=(--host "$DOCKER_HOST" --pidfile "$PIDFILE") i
  if [[ -n ${DOCKER_TEST_ROOT:-} ]]; then
    if [[ ! -d /sys/class/net/$BRIDGE ]]; then
      ip link add "$BRIDGE" type bridge
      ip addr add "$SUBNET" dev "$BRIDGE"
      ip link set "$BRIDGE" up
    fi
    args+=(--data-root "$DOCKER_TEST_ROOT" --exec-root "$DIR/exec" --bridge "$BRIDGE" --iptables=false)
  fi
  # shellcheck disable=SC2206 # split on purpose
  args+=(${DOCKER_TEST_ARGS:-})
  mkdir -p "$(dirname "${DOCKER_HOST#unix://}")"
  if ! alive >/dev/null; then
    rm -f "$PIDFILE"
    # The containerd of a killed dockerd dies with it, and as a zombie would
    # be taken for a living one.
    local containerd=$DIR/exec/containerd/containerd.pid
    if [[ -f $containerd ]] && ! runs "$(cat "$containerd")" containerd; then rm -f "$containerd"; fi
    # A session of its own and no standard stream of ours: the daemon must outlive a CI step, and
    # must not hold open a pipe that a caller reads to its end.
    setsid dockerd "${args[@]}" </dev/null >"$DIR/dockerd.log" 2>&1 &
    disown
  fi
  for ((i = 0; i < 600; i++)); do
    if answers; then return 0; fi
    if ((i > 20)) && ! alive >/dev/null; then break; fi
    sleep 0.1
  done
  tail -20 "$DIR/dockerd.log" >&2 || true
  die "dockerd does not answer on $DOCKER_HOST"
}

# A docker-archive with one layer: /bin/busybox, a link for each applet, and a few empty folders.
load_image() {
  local root=$DIR/rootfs img=$DIR/image applet layer config version
  if docker image inspect "$IMAGE" >/dev/null 2>&1; then return 0; fi
  rm -rf "$root" "$img"
  mkdir -p "$root"/{bin,etc,tmp,root,proc,sys,dev,work} "$img"
  chmod 1777 "$root/tmp"
  install -m 755 "$(command -v busybox)" "$root/bin/busybox"
  for applet in $("$root/bin/busybox" --list); do
    [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
  done
  echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
  echo 'nobody:x:65534:65534:nobody:/:/bin/sh' >>"$root/etc/passwd"
  echo 'root:x:0:' >"$root/etc/group"
  echo 'nogroup:x:65534:' >>"$root/etc/group"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu \
    -C "$root" -cf "$img/layer.tar" .
  layer=$(sha256sum "$img/layer.tar" | cut -d' ' -f1)
  version=$("$root/bin/busybox" | sed -n '1s/^BusyBox v\([^ ]*\).*/\1/p')
  config=$(printf '{"architecture":"amd64","os":"linux","created":"1970-01-01T00:00:00Z","config":{"Env":["PATH=/bin"],"Cmd":["sh"],"WorkingDir":"/work","Labels":{"sotabuild.test":"busybox","busybox.version":"%s"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"start-docker.sh"}]}' "$version" "$layer")
  printf '%s' "$config" >"$img/config.json"
  printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$IMAGE" >"$img/manifest.json"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$img" \
    -cf "$DIR/image.tar" config.json layer.tar manifest.json
  docker load -q -i "$DIR/image.tar" >/dev/null
}

print_env() {
  echo "export DOCKER_HOST=$DOCKER_HOST"
  echo "export DOCKER_TEST_IMAGE=$IMAGE"
  echo "export DOCKER_TEST_IMAGE_ID=$(docker image inspect --format '{{.Id}}' "$IMAGE")"
}

start() {
  mkdir -p "$DIR/config"
  install_packages
  start_daemon
  load_image
  [[ $(docker run --rm --network=none "$IMAGE" echo ok) == ok ]] || die "the test image does not run"
  say "docker $(docker version --format '{{.Server.Version}}') on $DOCKER_HOST; image $IMAGE"
  if alive >/dev/null; then say "log in $DIR/dockerd.log; to stop: $0 stop"; fi
  print_env
}

stop() {
  local pid i
  if ! pid=$(alive); then say "no daemon of ours runs"; return 0; fi
  # On TERM dockerd stops its containers (10 s each, all at once), then its containerd, then ends.
  kill -TERM "$pid"
  for ((i = 0; i < 300; i++)); do
    alive >/dev/null || break
    sleep 0.1
  done
  if alive >/dev/null; then kill -KILL "$pid" 2>/dev/null || true; fi
  rm -f "$PIDFILE"
  if [[ -n ${DOCKER_TEST_ROOT:-} ]]; then
    ip link del "$BRIDGE" 2>/dev/null || true
    # With live-restore the daemon leaves its folders mounted.
    awk -v dir="$DIR/" -v root="$DOCKER_TEST_ROOT" 'index($2, dir) == 1 || index($2 "/", root "/") == 1 {print $2}' /proc/mounts |
      tac | xargs -r umount 2>/dev/null || true
  fi
  say "stopped"
}

case ${1:-start} in
  start) start ;;
  stop) stop ;;
  env) print_env ;;
  status) answers || die "no daemon answers on $DOCKER_HOST"; docker image inspect "$IMAGE" >/dev/null ;;
  *) die "usage: $0 [start|stop|status|env]" ;;
esac
