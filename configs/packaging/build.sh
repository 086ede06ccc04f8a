#!/bin/sh
# Makes packages of trees that hold lib, bin and share, into the folder OUT, build/packages if unset:
#   configs/packaging/build.sh build/dist/root-amd64 build/dist/root-arm64
# The same commit and trees give the same packages, byte for byte; wheel and image with the same zlib.
set -eu
cd "$(dirname "$0")/../.."
[ -d "${1-}/share/doc" ] || { echo "${1:-build/dist/root-ARCH}: there is no such tree: run make dist" >&2; exit 1; }

out=${OUT:-build/packages}
VERSION=$(sed -n 's/^const Release = "\(.*\)"$/\1/p' tuner/comm.go)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# The address of this repository, for its owner to fill in. Packages name it, and nothing else does: pages say "this repository".
HOMEPAGE=https://REPOSITORY
[ "${HOMEPAGE#*//}" != REPOSITORY ] || echo "note: packages name $HOMEPAGE: fill in HOMEPAGE in configs/packaging/build.sh" >&2
MAINTAINER="The authors of nccl-tuner-go <$HOMEPAGE>"
export VERSION SOURCE_DATE_EPOCH HOMEPAGE MAINTAINER
nfpm() { go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4 package -t $out "$@"; }

rm -rf $out
umask 022
for tree; do
	ARCH=${tree##*root-}
	case $ARCH in
	amd64) machine=X86-64 tag=x86_64 ;;
	arm64) machine=AArch64 tag=aarch64 ;;
	*) echo "$tree: the architecture is \"$ARCH\" (allowed: amd64, arm64)" >&2; exit 1 ;;
	esac
	# Of glibc it needs the highest version of its programs' symbols, at least 2.17, the oldest that a wheel can name.
	GLIBC=2.17
	for program in "$tree"/lib/*.so "$tree"/bin/*; do
		readelf -hW "$program" | grep -q "Machine:.*$machine$" || { echo "$program is not for $ARCH" >&2; exit 1; }
		needs=$(readelf -VW "$program" | sed -n 's/.* Name: GLIBC_\(2\.[0-9]*\).*/\1/p')
		GLIBC=$(printf '%s\n' $GLIBC $needs | sort -V | tail -n 1)
	done
	# What the image holds. The other packages take the part of it that is below /opt.
	root=$out/roots/$ARCH
	STAGE=$root/opt/nccl-tuner-go
	export ARCH GLIBC STAGE
	mkdir -p "$STAGE"
	cp -R "$tree/." "$STAGE/"
	chmod -R go=u-w "$root"
	CGO_ENABLED=0 GOARCH=$ARCH go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$root/copy" ./internal/packaging/copy
	find "$root" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
	for format in deb rpm; do nfpm -p $format -f configs/packaging/nfpm.yaml; done
	python3 configs/packaging/wheel.py "$tree" "py3-none-manylinux_$(echo "$GLIBC" | tr . _)_$tag" $out
	set -- "$@" "$ARCH=$root"
	shift
done
for format in deb rpm; do nfpm -p $format -f configs/packaging/activate/nfpm.yaml; done
python3 configs/packaging/image.py "$out/nccl-tuner-go-$VERSION-oci.tar" "$@"
ls $out
