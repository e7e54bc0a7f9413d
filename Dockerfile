# A static program on an empty image: no shell, no package, no root. The root may be read-only;
# everything Drydock writes is below /data.
#
#   docker build -t drydock .                                 # for this machine, x86-64 or ARM
#   docker buildx build --platform linux/amd64,linux/arm64 .  # for both; what is not this machine's is built in an emulator
#   docker run --rm --read-only --cap-drop ALL --network none drydock demo --headless
#
# The base image's own target is the system's with musl, so what it builds is static on either processor.
FROM rust:1.95-alpine AS build
# A C compiler for the bundled SQLite, ring and mimalloc.
RUN apk add --no-cache build-base
WORKDIR /src
# The program embeds its reference configuration, prompts and migrations where it has them.
COPY . .
RUN cargo build --profile dist --locked --bin drydock \
 && mkdir -p /data /out/etc/ssl/certs \
 && cp target/dist/drydock /out/drydock \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ca-certificates.crt \
 && chmod 0700 /data

FROM scratch
COPY --from=build /out/ /
COPY --from=build --chown=65532:65532 /data /data
ENV DRYDOCK_DATA__DIRECTORY=/data/drydock \
    TMPDIR=/data \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
VOLUME /data
EXPOSE 7700
USER 65532:65532
ENTRYPOINT ["/drydock"]
CMD ["serve", "--config", "/etc/drydock/drydock.toml"]
