# The program `memory-tool`, with every backend. Its memory is in the volume /data, unless --store or MEMORY_TOOL_STORE
# names another one:
#
#     docker build -t memory-tool .
#     docker run --rm -i -v memory:/data memory-tool run
FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked -p memory-tool-cli

FROM debian:bookworm-slim
# The public certificates of buckets and the API.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /source/target/release/memory-tool /usr/local/bin/
COPY --from=build /source/LICENSE-APACHE /source/LICENSE-MIT /usr/share/doc/memory-tool/
RUN useradd --uid 1000 --no-create-home memory && install --directory --owner memory --mode 0700 /data
USER 1000
WORKDIR /data
ENV MEMORY_TOOL_STORE=/data
VOLUME /data
ENTRYPOINT ["memory-tool"]
CMD ["--help"]
