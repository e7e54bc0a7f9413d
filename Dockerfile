# A static program on an empty image: no shell, no packages, no root user. The root file system may be
# read-only; Drydock writes only below /data.
#
#   docker build -t drydock .                                 # for this machine, x86-64 or ARM
#   docker buildx build --platform linux/amd64,linux/arm64 .  # for both; the other architecture is built in an emulator
#   docker run --rm --read-only --cap-drop ALL --network none drydock demo --headless
#
# The default target of the base image uses musl, so the program is static on both architectures.
FROM rust:1.95-alpine AS build
# A C compiler for the bundled SQLite, ring and mimalloc.
RUN apk add --no-cache build-base
WORKDIR /src
# The build embeds the prompts and the migrations.
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
