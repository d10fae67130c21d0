# The image: one static binary, no shell, a user without rights. Build the binary first, `make image` does both: a build stage would
# need an image with Go in it, and a network to get it.
FROM scratch
COPY --chown=65532:65532 deploy/image /
COPY bin/ringlet /ringlet
USER 65532:65532
ENTRYPOINT ["/ringlet"]
