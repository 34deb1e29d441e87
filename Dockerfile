# The command holdfast as an image:
#
#   docker build -t holdfast .
#   docker run --rm -it --network host holdfast top
#
# An image of yours that runs commands under locks copies the command:
#
#   COPY --from=holdfast /holdfast /usr/local/bin/
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
ARG PROGRAM=cmd/holdfast
RUN cd $PROGRAM && GOWORK=off CGO_ENABLED=0 go build -o /holdfast .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /holdfast /holdfast
USER 65534
ENTRYPOINT ["/holdfast"]
