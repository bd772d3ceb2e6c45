import { usageError } from '../ctl-error.ts'
import { changeVm, DRY_RUN_OPTION, dryRunQuery, requireOne, fromPresent } from './change.ts'
import { parseCores, parseMib, parseSeconds } from '../units.ts'
import { WAIT_OPTIONS } from './wait.ts'
import { given as present } from '../../lib/given.ts'
import { readJsonFile } from '../json-file.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Command, Context, Option } from '../command.ts'
import type { paths } from '../../client/schema.d.ts'

/** Parses `KEY=VALUE`. Throws a usage error. */
export function parseLabel(text: string, what: string): readonly [key: string, value: string] {
  const [, key, value] = /^([^=,]+)=([^=,]*)$/.exec(text) ?? []
  if (key === undefined || value === undefined) throw usageError(`${what} ${text} is not KEY=VALUE`)
  return [key, value]
}

const SET_OPTIONS: readonly Option[] = [
  { name: 'label', value: 'KEY=VALUE', many: true, help: 'add a label, or change it', check: parseLabel },
  { name: 'unlabel', value: 'KEY', many: true, help: 'remove a label' },
  {
    name: 'protected',
    value: 'YES-OR-NO',
    help: 'yes: refuse its deletion; no: allow it',
    completes: ['yes', 'no'],
  },
]

export const setCommand: Command = {
  words: ['vm', 'set'],
  summary: 'change labels and protection',
  description:
    'Options that are not given change nothing. The host has nothing to do, so there is nothing to wait for.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...SET_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --label env=prod --unlabel canary', 'labels, for vmhostctl vm ls --label'],
    ['web-1 --protected no', 'before vmhostctl vm rm web-1'],
  ],
  run: async (context) => {
    const { given } = context
    requireOne(context, SET_OPTIONS)
    const path = { id: given.operand }
    return fromPresent(context, path.id, (vm, etag) => {
      const params = { path, query: dryRunQuery(context), header: { 'if-match': etag } }
      const body = metadataOf(vm, context)
      return changeVm(context, context.client().PUT('/v1/vms/{id}/metadata', { params, body }))
    })
  },
}

function metadataOf(vm: Vm, { given }: Context): Pick<Vm, 'labels' | 'protected'> {
  const added = given.texts('label').map((text) => parseLabel(text, '--label'))
  const removed = given.texts('unlabel')
  const kept = Object.entries(vm.labels).filter(([key]) => !removed.includes(key))
  const guard = given.text('protected')
  return {
    labels: Object.fromEntries([...kept, ...added]),
    protected: guard === undefined ? vm.protected : guard === 'yes',
  }
}

/** Options for the size of a VM; creation has the same. */
export const SHAPE_OPTIONS: readonly Option[] = [
  { name: 'cpu', value: 'CORES', help: 'such as 2, 1.5 or 0.25', check: parseCores },
  { name: 'memory', value: 'SIZE', help: 'such as 512M or 2G', check: parseMib },
  { name: 'disk', value: 'SIZE', help: 'such as 10G; a disk can grow but never shrink', check: parseMib },
  {
    name: 'sleep-after',
    value: 'TIME',
    help: 'sleep after this long without traffic, such as 10m; 0: never sleep',
    check: parseSeconds,
  },
  {
    name: 'wake',
    value: 'HOW',
    help: 'guaranteed: its memory stays promised while it sleeps; shared: it lends its memory',
    check: parseWake,
  },
]

export const resizeCommand: Command = {
  words: ['vm', 'resize'],
  summary: 'change CPU, memory, disk or idle timeout',
  description:
    'Options that are not given change nothing. CPU and memory change only while the VM is stopped; disk and idle timeout ' +
    'at any time. The command changes everything that is given, or nothing.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...SHAPE_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --disk 20G --wait', 'grows the disk, while the VM runs'],
    ['web-1 --cpu 2 --memory 4G', 'for a stopped VM: run vmhostctl vm stop web-1 --wait first'],
    ['web-1 --memory 64G --dry-run', 'whether the host would accept it'],
  ],
  run: async (context) => {
    requireOne(context, SHAPE_OPTIONS)
    const path = { id: context.given.operand }
    return fromPresent(context, path.id, (vm, etag) => {
      const params = { path, query: dryRunQuery(context), header: { 'if-match': etag } }
      const body = { ...shapeOf(vm), ...givenShape(context) }
      return changeVm(context, context.client().PUT('/v1/vms/{id}/resize', { params, body }))
    })
  },
}

/** Parses how the memory of a VM that sleeps is kept; null if it is lent. */
function parseWake(text: string, what: string): 'guaranteed' | null {
  if (text === 'guaranteed') return text
  if (text === 'shared') return null
  throw usageError(`${what} ${text} is not a way to wake`, 'write guaranteed or shared')
}

type Shape = {
  cpu_millicores: number
  memory_mib: number
  disk: { size_mib: number }
  sleep_after_idle_seconds: number
  wake?: 'guaranteed' | null
}

const shapeOf = ({ desired: { compute, disk } }: Vm): Shape => ({
  ...compute,
  disk: { size_mib: disk.size_mib },
})

/** Returns the members that the options set. */
export function givenShape({ given }: Pick<Context, 'given'>): Partial<Shape> {
  const shape: Partial<Shape> = {}
  const cpu = given.text('cpu')
  const memory = given.text('memory')
  const disk = given.text('disk')
  const sleep = given.text('sleep-after')
  const wake = given.text('wake')
  if (cpu !== undefined) shape.cpu_millicores = parseCores(cpu, '--cpu')
  if (memory !== undefined) shape.memory_mib = parseMib(memory, '--memory')
  if (disk !== undefined) shape.disk = { size_mib: parseMib(disk, '--disk') }
  if (sleep !== undefined) shape.sleep_after_idle_seconds = parseSeconds(sleep, '--sleep-after')
  if (wake !== undefined) shape.wake = parseWake(wake, '--wake')
  return shape
}

type Check = NonNullable<Vm['desired']['readiness']>

const PORT_MAX = 65_535

/** Parses `tcp:22` or `http:80/healthz`. Throws a usage error. */
export function parseCheck(text: string, what: string): Check {
  const [, protocol, port, path] = /^(tcp|http):(\d{1,5})(\/\S*)?$/.exec(text) ?? []
  const isPort = Number(port) >= 1 && Number(port) <= PORT_MAX
  if (isPort && ((protocol === 'tcp' && path === undefined) || protocol === 'http'))
    return { protocol, port: Number(port), ...present({ path }) }
  throw usageError(`${what} ${text} is not a check`, 'write tcp:22, http:80 or http:8080/healthz')
}

export const readinessCommand: Command = {
  words: ['vm', 'readiness'],
  summary: 'set how the host checks that the guest of a VM is ready',
  description:
    'The check is tcp:PORT if it is enough that the port accepts a connection, or http:PORT/PATH if a GET must be answered ' +
    'with a status below 400. It neither wakes the VM nor keeps it awake. With none, the guest is ready when its agent is ' +
    'seen. vmhostctl vm wait --for ready waits for it.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  secondOperand: { placeholder: 'CHECK' },
  options: [...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 http:80/healthz', 'a web server that answers on that path'],
    ['web-1 tcp:22', 'a port that takes connections'],
    ['web-1 none', 'the agent in the guest'],
  ],
  run: (context) => {
    const { operand: id, secondOperand: text } = context.given
    const params = { path: { id }, query: dryRunQuery(context) }
    const check = text === REMOVED ? null : parseCheck(text, 'CHECK')
    return changeVm(context, context.client().PUT('/v1/vms/{id}/readiness', { params, body: { check } }))
  },
}

type SetNetwork = paths['/v1/vms/{id}/network']['put']['requestBody']['content']['application/json']

const NETWORK_OPTIONS: readonly Option[] = [
  { name: 'ipv4', value: 'ADDRESS', help: 'address of the guest; none: it has no IPv4 address' },
  { name: 'ipv6', value: 'ADDRESS', help: 'address of the guest; none: it has no IPv6 address' },
  {
    name: 'ipv6-prefix',
    value: 'NETWORK',
    help: 'a network that the host routes to the guest, e.g. 2001:db8:1::/64; none: it routes none',
  },
  { name: 'mac', value: 'ADDRESS', help: "of the guest's network device; none: the host chooses" },
  {
    name: 'name-server',
    value: 'ADDRESS',
    many: true,
    help: 'for the guest, in place of those it has; none: no name server; default: the host chooses',
  },
  {
    name: 'file',
    value: 'FILE',
    help: 'what to change as JSON, - for standard input; other options override it',
    completes: 'file',
  },
]

/** Returns the list that the options give; undefined if there is none of them. */
export function givenNameServers(texts: readonly string[]): string[] | undefined {
  if (texts.length === 0) return undefined
  return texts.length === 1 && texts[0] === REMOVED ? [] : [...texts]
}

const FILE_ADVICE =
  'the file is the JSON body of PUT /v1/vms/{id}/network, e.g. {"firewall":{"inbound":[{"protocol":"tcp","ports":["22"]}]}}'

/** The word for `null` on a command line. */
export const REMOVED = 'none'

/** The word on a command line that gives name servers back to the configuration of the host. */
const HOSTS_CHOICE = 'default'

export const networkCommand: Command = {
  words: ['vm', 'network'],
  summary: 'change addresses, prefix, name servers, bandwidth or firewall',
  description:
    'Options that are not given change nothing. To remove a value, write none on the command line, or null in the file. ' +
    'Addresses and name servers change only while the VM is stopped; prefix, bandwidth and firewall at any time. Bandwidth ' +
    'and firewall can be set only in the file.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...NETWORK_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --ipv4 192.0.2.11 --ipv6 none', 'for a stopped VM: run vmhostctl vm stop web-1 --wait first'],
    ['web-1 --name-server 192.0.2.53 --name-server 2001:db8::53', 'also for a stopped VM'],
    ['web-1 --ipv6-prefix 2001:db8:1:42::/64 --wait', 'for a running VM'],
    ['web-1 --file firewall.json --wait', 'for a running VM'],
    ['web-1 --file firewall.json --dry-run', 'what would change'],
  ],
  run: async (context) => {
    requireOne(context, NETWORK_OPTIONS)
    const params = { path: { id: context.given.operand }, query: dryRunQuery(context) }
    const body = await changeOf(context)
    return changeVm(context, context.client().PUT('/v1/vms/{id}/network', { params, body }))
  },
}

async function changeOf(context: Context): Promise<SetNetwork> {
  const { given } = context
  const path = given.text('file')
  const file =
    path === undefined ? {} : await readJsonFile({ path, option: '--file', advice: FILE_ADVICE }, context)
  const addresses = {
    ipv4_address: given.text('ipv4'),
    ipv6_address: given.text('ipv6'),
    ipv6_prefix: given.text('ipv6-prefix'),
    mac_address: given.text('mac'),
  }
  const named = Object.entries(addresses).filter(([, value]) => value !== undefined)
  const changed = named.map(([name, value]) => [name, value === REMOVED ? null : value] as const)
  const texts = given.texts('name-server')
  const nameServers = texts.length === 1 && texts[0] === HOSTS_CHOICE ? null : givenNameServers(texts)
  // The daemon checks the content of the file.
  return {
    ...file,
    ...Object.fromEntries(changed),
    ...present({ name_servers: nameServers }),
  }
}
