# shellcheck shell=bash
# What boreas needs from the distribution, and how it gets there. Sourced by ./run and ./check; both call
# `need_packages GROUP...` first. Always holds: only the distribution's own packages are installed, none is ever
# removed, and with nothing missing no network is touched.

# A word is `package`, looked up in dpkg, or `command=package`, satisfied by any such command on the PATH.
packages_of() {
  local boost=1.83 llvm=18 # Ubuntu 24.04
  # shellcheck disable=SC1091  # a file of the system
  case $(. /etc/os-release && echo "$ID-${VERSION_ID:-}") in
    debian-12) boost=1.81 llvm=14 ;;
    debian-13) llvm=19 ;;
  esac
  case $1 in
    build) echo "cmake=cmake ninja=ninja-build g++=g++ ccache=ccache pkg-config=pkg-config" \
      "libboost$boost-dev libboost-json$boost-dev libpcre2-dev libutf8proc-dev libcli11-dev" \
      "libspdlog-dev libfmt-dev" ;;
    test) echo "libgtest-dev libgmock-dev libbenchmark-dev libboost-context$boost-dev" \
      "python3=python3 python3-jinja2 clang-format=clang-format" ;;
    full) echo "clang++=clang libclang-rt-$llvm-dev clang-tidy=clang-tidy node=nodejs npm=npm" ;;
  esac
}

missing_packages() {
  local word group
  for group in "$@"; do
    for word in $(packages_of "$group"); do
      if [[ $word == *=* ]]; then
        command -v "${word%%=*}" >/dev/null || echo "${word#*=}"
      elif [[ $(dpkg-query -W -f='${db:Status-Status}' "$word" 2>/dev/null) != installed ]]; then
        echo "$word"
      fi
    done
  done
}

need_packages() {
  local missing sudo=()
  if ! command -v dpkg-query apt-get >/dev/null; then
    echo "setup: no apt, nothing is installed; needed: $(for group in "$@"; do packages_of "$group"; done | xargs)"
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  echo "setup: installing ${missing[*]}"
  if ((EUID != 0)); then
    sudo=(sudo)
    if ! command -v sudo >/dev/null; then
      echo "setup: neither root nor sudo; run as root: apt-get install ${missing[*]}" >&2
      return 1
    fi
  fi
  "${sudo[@]}" apt-get update -qq || echo "setup: apt-get update failed; trying with the lists that are here" >&2
  # --no-remove: libboost1.81-dev conflicts with Debian 12's libboost-dev (1.74), which may be the user's own.
  if ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends --no-remove "${missing[@]}"; then
    echo "setup: apt-get could not install: ${missing[*]}" >&2
    echo "setup: if it says above that packages would be removed (libboost-dev 1.74 stands against libboost1.81-dev)," \
      "run that apt-get install yourself without --no-remove; nothing is removed here" >&2
    return 1
  fi
}

# Prints the version of the CUDA compiler (as in 13.0), puts it on the PATH; fails when there is none.
find_nvcc() {
  local dir
  for dir in "$(dirname "$(command -v nvcc || echo /none/nvcc)")" "${CUDA_HOME:-/none}/bin" /usr/local/cuda/bin; do
    if [[ -x $dir/nvcc ]]; then
      PATH=$dir:$PATH
      NVCC_VERSION=$("$dir/nvcc" --version | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p')
      return 0
    fi
  done
  return 1
}

has_cuda_sources() { compgen -G 'src/exec/cuda/*.cu' >/dev/null; }

# shellcheck disable=SC2034  # PRESET is read by ./run and ./check
# Sets PRESET to cuda where the tree has a CUDA executor and the machine a compiler for it, else to cpu, saying why.
choose_preset() {
  PRESET=cpu
  if ! has_cuda_sources; then
    echo "setup: CPU build (this version has no CUDA executor yet; there is nothing to install for it)"
  elif find_nvcc && ((${NVCC_VERSION%%.*} >= 13)); then
    PRESET=cuda
  else
    echo "setup: CPU build, CUDA compiler ${NVCC_VERSION:-absent}; for the GPU install NVIDIA's cuda-toolkit-13-0"
  fi
}

# configure PRESET [-D...]: quiet when all is well, the whole log when not. ccache hits carry over to other clones.
configure() {
  local log
  log=$(mktemp)
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  echo "cmake: preset $1"
  if ! cmake --preset "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}
