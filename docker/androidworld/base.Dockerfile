# In place of openjdk:18-jdk-slim, on which AndroidWorld's own Dockerfile builds: that tag was withdrawn from Docker Hub on
# 2025-11-03 (docker-library/openjdk#550, google-research/android_world#351). Built under the same name, it needs no
# change there:
#
#   docker build -t openjdk:18-jdk-slim - < docker/androidworld/base.Dockerfile
#
# Ubuntu 22.04 has all packages that the Dockerfile installs. Digest read on 2026-11-28.
FROM eclipse-temurin:17-jdk-jammy@sha256:ef4374b4b6b9d813dd3f5b593a35ec9a820cfb64a55994798147cc73435a0208
# AndroidWorld's setup.py imports pkg_resources, which setuptools 82 no longer has.
RUN echo 'setuptools<82' > /build-constraints.txt
ENV UV_BUILD_CONSTRAINT=/build-constraints.txt
