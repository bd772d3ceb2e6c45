/** The configuration of the lab's object store: one replica of everything, on one device. */

export const CONFIG_FOLDER = '/etc/swift'
/** Folder of the objects. It is a file system of its own, because Swift keeps metadata in extended attributes. */
export const DEVICES = '/srv/object-store'
export const DEVICE = 'd1'
export const CA_FILE = `${CONFIG_FOLDER}/ca.crt`
const [CERT_FILE, KEY_FILE] = [`${CONFIG_FOLDER}/store.crt`, `${CONFIG_FOLDER}/store.key`]

/** A name and an address for documentation (RFC 2606, RFC 5737), neither loopback nor a guest's. */
export const HOST = 'store.example.net'
export const ADDRESS = '203.0.113.80'
export const PORT = 8443
export const CACHE_PORT = 11211
export const ACCESS_KEY = 'test:tester'
export const SECRET_KEY = 'testing-testing'

/** The servers behind the proxy, with their Python modules. */
export const BACKENDS = {
  account: { module: 'swift.account.server', port: 6202 },
  container: { module: 'swift.container.server', port: 6201 },
  object: { module: 'swift.obj.server', port: 6200 },
} as const

export type Backend = keyof typeof BACKENDS

/** All configuration files by name. */
export const configFiles = (): ReadonlyMap<string, string> =>
  new Map([
    ['swift.conf', SWIFT],
    ['proxy.conf', PROXY],
    ...(Object.keys(BACKENDS) as Backend[]).map((kind) => [`${kind}.conf`, backend(kind)] as const),
  ])

// One process each: a lab has few cores, and green threads serve many connections.
const DEFAULTS = `[DEFAULT]
user = swift
workers = 0
log_level = INFO
`

const SWIFT = `[swift-hash]
swift_hash_path_prefix = lab
swift_hash_path_suffix = lab

[storage-policy:0]
name = one
default = yes
`

const backend = (kind: Backend): string => `${DEFAULTS}bind_ip = 127.0.0.1
bind_port = ${BACKENDS[kind].port}
devices = ${DEVICES}
mount_check = false
# Else an object of unknown length is refused on a small disk.
fallocate_reserve = 0

[pipeline:main]
pipeline = ${kind}-server

[app:${kind}-server]
use = egg:swift#${kind}
# The proxy logs the requests.
log_requests = false
`

// The order is Swift's own (etc/proxy-server.conf-sample), with only the filters that s3api needs.
const PROXY = `${DEFAULTS}bind_ip = 0.0.0.0
bind_port = ${PORT}
cert_file = ${CERT_FILE}
key_file = ${KEY_FILE}

[pipeline:main]
pipeline = catch_errors gatekeeper proxy-logging cache listing_formats bulk s3api tempauth copy slo dlo versioned_writes proxy-logging proxy-server

[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
# One server of each kind: to avoid it for a while after it was down would only be an outage.
error_suppression_limit = 1000000
object_chunk_size = 1048576
client_chunk_size = 1048576

[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:proxy-logging]
use = egg:swift#proxy_logging
access_log_name = access
# tempauth wants a cache of tokens, which s3api never makes: none runs there.
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:${CACHE_PORT}
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
# Presigned URLs are good for seconds in tests.
allowable_clock_skew = 900
[filter:tempauth]
use = egg:swift#tempauth
user_${ACCESS_KEY.replace(':', '_')} = ${SECRET_KEY} .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:versioned_writes]
use = egg:swift#versioned_writes
`

/** Makes an authority and a certificate signed by it, like those of a private object store. */
export const certificateScript = (): string => `set -e
cd ${CONFIG_FOLDER}
[ -f ${CERT_FILE} ] && exit 0
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=lab object store CA' \\
  -keyout ca.key -out ${CA_FILE} 2>/dev/null
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=${HOST} \\
  -CA ${CA_FILE} -CAkey ca.key -addext subjectAltName=DNS:${HOST},IP:${ADDRESS} \\
  -addext basicConstraints=critical,CA:false -keyout ${KEY_FILE} -out ${CERT_FILE} 2>/dev/null
chown swift ${KEY_FILE}
`
