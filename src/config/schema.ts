import { Type } from 'typebox'
import { closed } from '../lib/schema-check.ts'
import { VM_ID_PATTERN } from '../core/ids.ts'
import { MONITOR_KINDS } from '../core/monitor/monitor-kind.ts'
import { limits } from './limits.ts'
import type { Static, TProperties } from 'typebox'

/** A table of the file: it allows no other keys, and has its defaults if the file leaves it out. */
const table = <P extends TProperties>(properties: P) => Type.Object(properties, { ...closed, default: {} })

/** A blank or a quotation mark would end a path in a message, so the rest could not be recognized as a part of it. */
const PATH_PATTERN = '^/[^\\x00-\\x20\\x7f\'"`]*$'
const COMMON_NAME_PATTERN = '^[^\\x00-\\x1f\\x7f]{1,64}$'
const HOST_ID_PATTERN = '^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$'
const RANGE_PATTERN = '^[0-9A-Fa-f:.]+/[0-9]{1,3}$'
/** One label, as the API takes it in `?label=`. */
const LABEL_PATTERN = '^[A-Za-z0-9._/-]{1,128}=[A-Za-z0-9._-]{0,63}$'
/** A name, or `*.` and a name, which stands for all names below it. */
const HOST_NAME_PATTERN = '^(\\*\\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$'
const ADDRESS_PATTERN = '^[0-9A-Fa-f:.]+$|^\\[[0-9A-Fa-f:.]+\\]$'

/** Describes in words what a value that does not match its pattern must be. */
export const patternWords: ReadonlyMap<string, string> = new Map([
  [PATH_PATTERN, 'must be an absolute path without spaces and quotation marks'],
  [COMMON_NAME_PATTERN, 'must be 1 to 64 printable characters'],
  [HOST_ID_PATTERN, 'must be 1 to 64 letters, digits, inner dots and hyphens'],
  [VM_ID_PATTERN, 'must be the id of a VM'],
  [LABEL_PATTERN, 'must be one label like env=prod'],
  [RANGE_PATTERN, 'must be a network in CIDR form, e.g. 192.0.2.0/24'],
  [HOST_NAME_PATTERN, 'must be a host name, or *. and a name for all below it'],
  [ADDRESS_PATTERN, 'must be an IPv4 or IPv6 address'],
])

/** Returns what `host.id` must be, if this text cannot be one. */
export const whyNotHostId = (text: string): string | undefined =>
  new RegExp(HOST_ID_PATTERN).test(text) ? undefined : patternWords.get(HOST_ID_PATTERN)

const path = (value: string) => Type.String({ pattern: PATH_PATTERN, default: value })
const optionalPath = () => Type.Optional(Type.String({ pattern: PATH_PATTERN }))
const port = { minimum: 1, maximum: 65_535 } as const
const ports = (maxItems: number = 256) => Type.Array(Type.Integer(port), { default: [], maxItems })
const ranges = (maxItems: number) =>
  Type.Array(Type.String({ pattern: RANGE_PATTERN }), { default: [], maxItems })
/** A packet's mark has 32 bits. */
const mark = () => Type.Integer({ minimum: 0, maximum: 0xffff_ffff, default: 0 })

/**
 * Free of systemd's ranges (systemd.io/UIDS-GIDS: 1879048192 to 2147352575 is unused), of the subordinate ids of
 * useradd (login.defs(5), SUB_UID_MAX 600100000), and of SSSD's accounts (sssd-ldap(5),
 * ldap_idmap_range_max 2000200000).
 */
const USER_ID_FIRST = 2_100_000_000

/** A further client of the controller API. What goes with which role is checked by `wrongClients`. */
const clientSchema = Type.Object(
  {
    common_name: Type.String({ pattern: COMMON_NAME_PATTERN }),
    role: Type.Enum(['controller', 'reader', 'console']),
    vm: Type.Optional(Type.String({ pattern: VM_ID_PATTERN })),
    label: Type.Optional(Type.String({ pattern: LABEL_PATTERN })),
  },
  closed,
)

/** The configuration file, key by key. `config.example.toml` explains what each key does. */
export const configSchema = table({
  state_directory: path('/var/lib/vmhostd'),
  run_directory: path('/run/vmhostd'),
  shutdown_bound_seconds: Type.Integer({ minimum: 1, maximum: 300, default: limits.shutdownBoundMs / 1000 }),
  host: table({
    // If absent, the loader fills in the machine's host name.
    id: Type.String({ pattern: HOST_ID_PATTERN }),
    on_shutdown: Type.Enum(['save', 'stop', 'kill'], { default: 'save' }),
    on_shutdown_seconds: Type.Integer({ minimum: 1, maximum: limits.shutdownMsMax / 1000, default: 120 }),
  }),
  log: table({
    level: Type.Enum(['debug', 'info', 'warn', 'error'], { default: 'info' }),
  }),
  controller: table({
    listen_address: Type.String({ pattern: ADDRESS_PATTERN, default: '::' }),
    port: Type.Integer({ ...port, default: 9000 }),
    common_name: Type.String({ pattern: COMMON_NAME_PATTERN, default: 'vmhost-controller' }),
    clients: Type.Array(clientSchema, { default: [], maxItems: limits.clientsMax }),
    ca_file: path('/etc/vmhostd/tls/ca.crt'),
    certificate_file: path('/etc/vmhostd/tls/server.crt'),
    key_file: path('/etc/vmhostd/tls/server.key'),
    revocation_file: optionalPath(),
  }),
  coordination: table({
    enabled: Type.Boolean({ default: true }),
    listen_address: Type.String({ pattern: ADDRESS_PATTERN, default: '::' }),
    port: Type.Integer({ ...port, default: 9001 }),
    // If absent, the loader fills in the controller's authority, and the node's files beside the server's certificate.
    ca_file: optionalPath(),
    certificate_file: optionalPath(),
    key_file: optionalPath(),
    // If absent, the controller's, where the authority is the controller's too.
    revocation_file: optionalPath(),
    // 0: no limit.
    mbit_per_second: Type.Integer({ minimum: 0, maximum: limits.bandwidthMbitPerSecondMax, default: 0 }),
  }),
  metrics: table({
    enabled: Type.Boolean({ default: false }),
    listen_address: Type.String({ pattern: ADDRESS_PATTERN, default: '::' }),
    port: Type.Integer({ ...port, default: 9002 }),
    common_names: Type.Array(Type.String({ pattern: COMMON_NAME_PATTERN }), {
      default: ['vmhost-metrics'],
      minItems: 1,
      maxItems: limits.metricsReadersMax,
    }),
  }),
  storage: table({
    pool_directory: path('/var/lib/vmhostd/pool'),
    local_images_directory: optionalPath(),
    image_idle_hours: Type.Integer({ minimum: 0, maximum: limits.imageIdleHoursMax, default: 168 }),
  }),
  object_store: table({
    allow_http: Type.Boolean({ default: false }),
    extra_ca_file: optionalPath(),
    allowed_hosts: Type.Array(Type.String({ pattern: HOST_NAME_PATTERN }), {
      default: [],
      maxItems: limits.allowedHostsMax,
    }),
    allowed_networks: ranges(limits.allowedNetworksMax),
  }),
  snapshots: table({
    // zstd's own range, without the levels that need more than 64 MiB for each thread (zstd(1), --ultra).
    compression_level: Type.Integer({ minimum: 1, maximum: 19, default: 3 }),
    uploads_max: Type.Integer({ minimum: 1, maximum: 64, default: 4 }),
    // 0: no limit.
    upload_mbit_per_second: Type.Integer({ minimum: 0, maximum: 100_000, default: 0 }),
    staging_quota_mib: Type.Integer({
      minimum: limits.stagingQuotaMibMin,
      maximum: limits.diskMibMax,
      default: 16_384,
    }),
    staging_max_age_hours: Type.Integer({ minimum: 1, maximum: 24 * 30, default: 24 }),
  }),
  vms: table({
    // 65534 and 65535 are "nobody" and "no user" (systemd.io/UIDS-GIDS); the last 32-bit id means "no change".
    user_id_first: Type.Integer({ minimum: 65_536, maximum: 4_294_967_293, default: USER_ID_FIRST }),
    user_id_count: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 50_000 }),
  }),
  capacity: table({
    memory_reserve_mib: Type.Integer({ minimum: 0, maximum: limits.memoryMibMax, default: 1024 }),
    disk_reserve_mib: Type.Integer({ minimum: 0, maximum: limits.diskMibMax, default: 1024 }),
    memory_sleep_ratio: Type.Number({ minimum: 0, maximum: 1, default: 1 }),
    disk_overcommit: Type.Number({ minimum: 1, maximum: 100, default: 1 }),
  }),
  monitor: table({
    kind: Type.Enum(['auto', ...MONITOR_KINDS], { default: 'auto' }),
    program: optionalPath(),
    accelerator: Type.Enum(['auto', 'kvm', 'tcg'], { default: 'auto' }),
    firecracker_program: optionalPath(),
    metadata_service: Type.Boolean({ default: false }),
  }),
  network: table({
    masquerade: Type.Boolean({ default: false }),
    isolate_guests: Type.Boolean({ default: true }),
    guest_ranges: ranges(64),
    name_servers: Type.Array(Type.String(), { maxItems: limits.nameServersMax, default: [] }),
    guest_connections_max: Type.Integer({
      minimum: 1,
      maximum: limits.hostConnectionsMax,
      default: limits.guestConnectionsMax,
    }),
    inbound_default: Type.Enum(['accept', 'drop'], { default: 'accept' }),
    host_ports_tcp: ports(),
    host_ports_udp: ports(),
  }),
  sleep: table({
    ignore_sources: ranges(limits.ignoredSourcesMax),
    ignore_ports_tcp: ports(limits.ignoredPortsMax / 2),
    ignore_ports_udp: ports(limits.ignoredPortsMax / 2),
    ignore_mark: mark(),
    ignore_mark_mask: mark(),
  }),
})

export type ConfigFile = Static<typeof configSchema>
