# The program `memory-tool`, with every backend. Its memory is in the volume /data, unless --store or MEMORY_TOOL_STORE
# names another one:
#
#     docker build -t memory-tool .
#     docker run --rm -i -v memory:/data memory-tool run
FROM rust:1.95.0-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082 AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked -p memory-tool-cli && .ci/notices "" memory-tool-cli >LICENSE-THIRD-PARTY

FROM debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
# The public certificates of buckets and the API.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /source/target/release/memory-tool /usr/local/bin/
COPY --from=build /source/LICENSE-APACHE /source/LICENSE-MIT /source/LICENSE-THIRD-PARTY /usr/share/doc/memory-tool/
RUN useradd --uid 1000 --no-create-home memory && install --directory --owner memory --mode 0700 /data
USER 1000
WORKDIR /data
ENV MEMORY_TOOL_STORE=/data
VOLUME /data
ENTRYPOINT ["memory-tool"]
CMD ["--help"]
