import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'smol-toml'
import { ConfigError, loadConfig, parseConfig } from './config.ts'
import { configSchema } from './schema.ts'
import type { Config } from './config.ts'

const source = { path: '/etc/vmhostd/config.toml', hostname: 'host-1' }
const example = readFileSync(new URL('config.example.toml', import.meta.url), 'utf8')

/** The schema as plain JSON. */
type Node = { readonly properties?: Readonly<Record<string, Node>>; readonly default?: unknown }

const schema: Node = JSON.parse(JSON.stringify(configSchema))

/** Returns the lines of the refusal, without its heading. */
function problemsOf(text: string): string[] {
  try {
    parseConfig(text, source)
  } catch (error) {
    assert.ok(error instanceof ConfigError)
    return error.message
      .split('\n')
      .slice(1)
      .map((line) => line.trim())
  }
  return assert.fail('it should have been refused')
}

test('an empty file gives every default and the host name as id', () => {
  const config = parseConfig('', source)
  assert.equal(config.stateDirectory, '/var/lib/vmhostd')
  assert.equal(config.controller.port, 9000)
  assert.equal(config.controller.commonName, 'vmhost-controller')
  assert.deepEqual(config.network.hostPortsTcp, [])
  assert.equal(config.host.id, 'host-1')
  assert.equal(config.monitor.program, undefined)
})

test("without files of its own, the coordination listener takes the controller's authority and node.crt beside its certificate", () => {
  const files = ({ coordination }: Config): string[] => [
    coordination.caFile,
    coordination.certificateFile,
    coordination.keyFile,
  ]
  assert.deepEqual(files(parseConfig('', source)), [
    '/etc/vmhostd/tls/ca.crt',
    '/etc/vmhostd/tls/node.crt',
    '/etc/vmhostd/tls/node.key',
  ])
  const moved = '[controller]\nca_file = "/a/ca.pem"\ncertificate_file = "/b/server.crt"\n'
  assert.deepEqual(files(parseConfig(moved, source)), ['/a/ca.pem', '/b/node.crt', '/b/node.key'])
  const own = `${moved}[coordination]\nca_file = "/c/nodes.crt"\nkey_file = "/d/node.key"`
  assert.deepEqual(files(parseConfig(own, source)), ['/c/nodes.crt', '/b/node.crt', '/d/node.key'])
})

/** Ranges of user ids that others give out, first and last (the comment of `USER_ID_FIRST` has the sources). */
const USER_IDS_OF_OTHERS = {
  'users of the host': [0, 65_535],
  'subordinate ids of useradd': [100_000, 600_100_000],
  'containers of systemd': [524_288, 1_879_048_191],
  'accounts of SSSD': [200_000, 2_000_200_000],
  'images of systemd': [2_147_352_576, 2_147_418_111],
} as const

for (const [others, [first, last]] of Object.entries(USER_IDS_OF_OTHERS)) {
  test(`by default no VM gets a user id of ${others}`, () => {
    const { vms } = parseConfig('', source)
    const lastOfVms = vms.userIdFirst + vms.userIdCount - 1
    assert.ok(lastOfVms < first || vms.userIdFirst > last, `${vms.userIdFirst} to ${lastOfVms}`)
  })
}

test('values of the file win over defaults', () => {
  const config = parseConfig(
    'shutdown_bound_seconds = 3\n[host]\nid = "a"\n[network]\nhost_ports_udp = [53]',
    source,
  )
  assert.equal(config.shutdownBoundSeconds, 3)
  assert.equal(config.host.id, 'a')
  assert.deepEqual(config.network.hostPortsUdp, [53])
})

test('clients of the controller API have a role, and console clients a VM or a label', () => {
  const text =
    '[[controller.clients]]\ncommon_name = "metrics"\nrole = "reader"\n' +
    '[[controller.clients]]\ncommon_name = "anna"\nrole = "console"\nlabel = "team=web"'
  assert.deepEqual(parseConfig(text, source).controller.clients, [
    { commonName: 'metrics', role: 'reader' },
    { commonName: 'anna', role: 'console', label: 'team=web' },
  ])
})

test('a mark may use all 32 bits', () => {
  const { sleep } = parseConfig('[sleep]\nignore_mark = 0x80000000\nignore_mark_mask = 0xffffffff', source)
  assert.deepEqual([sleep.ignoreMark, sleep.ignoreMarkMask], [0x8000_0000, 0xffff_ffff])
})

test('the value is frozen all the way down', () => {
  const config = parseConfig('', source)
  for (const part of [config, config.controller, config.network.hostPortsTcp])
    assert.ok(Object.isFrozen(part))
})

test('all mistakes are reported at once, with the path of each key and the nearest known one', () => {
  const text =
    'state_dir = "/x"\n[controller]\nprot = 1\nport = 0\nca_file = "ca.crt"\n[monitor]\nkind = "xen"\n[vm]\n'
  assert.deepEqual(problemsOf(text).toSorted(), [
    'controller.ca_file must be an absolute path without spaces and quotation marks',
    'controller.port must be between 1 and 65535',
    'controller.prot is not known here; did you mean port?',
    'monitor.kind must be one of auto, qemu, firecracker',
    'state_dir is not known here',
    'vm is not known here; did you mean vms?',
  ])
})

const contradictions: readonly (readonly [string, string])[] = [
  ['[controller]\nlisten_address = "1.2.3"', 'controller.listen_address must be an IPv4 or IPv6 address'],
  ['[coordination]\nlisten_address = "[1"', 'coordination.listen_address must be an IPv4 or IPv6 address'],
  ['[coordination]\nport = 9000', 'coordination.port must differ from controller.port'],
  ['[vms]\nuser_id_first = 4294967000', 'vms.user_id_count reaches beyond the last user id, 4294967293'],
  ['[metrics]\nenabled = true\nport = 9000', 'metrics.port must differ from controller.port'],
  ['[metrics]\nenabled = true\nport = 9001', 'metrics.port must differ from coordination.port'],
  [
    '[metrics]\ncommon_names = ["host-1"]',
    "metrics.common_names must not have host.id: a node's certificate has that name",
  ],
  ['run_directory = "/srv/run"', 'run_directory must be a path below /run, such as /run/vmhostd'],
  ['run_directory = "/run/vmhostd/"', 'run_directory must be a path below /run, such as /run/vmhostd'],
  ['run_directory = "/run/../srv"', 'run_directory must be a path below /run, such as /run/vmhostd'],
  [
    'state_directory = "/run/vmhostd/"',
    'state_directory must not be in run_directory, which is emptied at boot',
  ],
  [
    '[storage]\npool_directory = "/run/vmhostd/pool"',
    'storage.pool_directory must not be in run_directory, which is emptied at boot',
  ],
  [
    'run_directory = "/run/a-name-that-is-much-too-long"',
    'run_directory must be at most 28 bytes long: socket paths have an end',
  ],
  [
    '[host]\nid = "vmhost-controller"',
    "host.id must differ from controller.common_name: a node's certificate has it",
  ],
  ['controller = 1', 'controller must be an object'],
  [
    '[[controller.clients]]\ncommon_name = "vmhost-controller"\nrole = "reader"',
    'controller.clients.0.common_name must differ from controller.common_name',
  ],
  [
    '[controller]\nclients = [{ common_name = "a", role = "reader" }, { common_name = "a", role = "controller" }]',
    'controller.clients.1.common_name must differ from controller.clients.0',
  ],
  [
    '[[controller.clients]]\ncommon_name = "a"\nrole = "console"',
    'controller.clients.0 needs vm or label, one of them',
  ],
  [
    '[[controller.clients]]\ncommon_name = "a"\nrole = "reader"\nvm = "web-1"',
    'controller.clients.0 may not have vm or label: the role reader is for all VMs',
  ],
  [
    '[[controller.clients]]\ncommon_name = "a"\nrole = "console"\nlabel = "web"',
    'controller.clients.0.label must be one label like env=prod',
  ],
  ['[network]\nmasquerade = "yes"', 'network.masquerade must be true or false'],
  [
    '[network]\nname_servers = ["169.254.0.1", "169.254.169.253"]',
    'network.name_servers.1 is link-local (169.254.0.0/16), where the gateway of every guest is',
  ],
  [
    '[network]\nguest_ranges = ["192.0.2.0/24", "192.0.2.1/25"]',
    'network.guest_ranges.1 has bits set after its prefix; the network is 192.0.2.0/25',
  ],
  [
    '[sleep]\nignore_sources = ["192.0.2.53/24"]',
    'sleep.ignore_sources.0 has bits set after its prefix; the network is 192.0.2.0/24',
  ],
  ['[sleep]\nignore_ports_udp = [0]', 'sleep.ignore_ports_udp.0 must be between 1 and 65535'],
  [
    '[sleep]\nignore_mark = 0x11\nignore_mark_mask = 0xf0',
    'sleep.ignore_mark has bits that sleep.ignore_mark_mask has not: it would match no packet',
  ],
  ['[sleep]\nignore_mark = 0x1_0000_0000', 'sleep.ignore_mark must be between 0 and 4294967295'],
  ['[capacity]\ndisk_overcommit = 0.5', 'capacity.disk_overcommit must be between 1 and 100'],
]
for (const [text, problem] of contradictions) {
  test(`refused: ${problem}`, () => {
    assert.deepEqual(problemsOf(text), [problem])
  })
}

test('a file that is not TOML is refused with line and column', () => {
  assert.throws(() => parseConfig('[log]\nlevel = info', source), /config\.toml, line 2, column \d+: /)
})

test('a missing file is refused with the way to get one', () => {
  assert.throws(() => loadConfig('/nonexistent/config.toml'), /"vmhostd setup" writes one/)
  // A directory is there, and set-up would not replace it.
  assert.throws(
    () => loadConfig('/etc'),
    (error) =>
      error instanceof ConfigError &&
      error.message === '/etc cannot be read' &&
      error.cause instanceof Error &&
      error.cause.message.startsWith('EISDIR'),
  )
})

test('the example file is valid as shipped and changes nothing', () => {
  assert.deepEqual(parseConfig(example, source), parseConfig('', source))
})

test('every commented default of the example is the default of the schema', () => {
  const uncommented = example.replace(/^#(\w+ = .*)$/gm, '$1')
  const shown: unknown = parse(uncommented)
  assert.deepEqual(leaves(shown), defaultsOf(schema))
})

test('every key that has no default is in the example with an example value that is accepted', () => {
  const shown = example.replace(/^# {3}Example: (\w+ = .*)$/gm, '$1')
  const config = parseConfig(shown, source)
  const keys = Object.keys(leaves(parse(shown)))
  assert.deepEqual(keys, keysWithoutDefault(schema))
  assert.equal(config.storage.localImagesDirectory, '/srv/images')
})

/** Flattens tables to dotted keys with their values. */
function leaves(value: unknown, prefix = ''): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { [prefix.slice(1)]: value }
  return Object.assign(
    {},
    ...Object.entries(value).map(([key, member]) => leaves(member, `${prefix}.${key}`)),
  )
}

function schemaLeaves(node: Node, prefix = ''): (readonly [string, Node])[] {
  if (node.properties === undefined) return [[prefix.slice(1), node]]
  return Object.entries(node.properties).flatMap(([key, member]) => schemaLeaves(member, `${prefix}.${key}`))
}

const defaultsOf = (node: Node): Record<string, unknown> =>
  Object.fromEntries(
    schemaLeaves(node).flatMap(([key, leaf]) => ('default' in leaf ? [[key, leaf.default]] : [])),
  )

const keysWithoutDefault = (node: Node): string[] =>
  schemaLeaves(node).flatMap(([key, leaf]) => ('default' in leaf ? [] : [key]))
