// Package packaging tests what configs/packaging/build.sh makes: system packages, the Python wheel and the container
// image, whose program is in copy.
package packaging
