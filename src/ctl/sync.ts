import { limits } from '../config/limits.ts'
import { answered } from '../client/api-client.ts'
import { ApiProblem } from '../client/api-problem.ts'
import { causeFirst } from '../client/cause-first.ts'
import { exitStatus } from './exit-status.ts'
import { renderFacts, renderTable } from './text.ts'
import { showCores, showMib } from '../lib/shown-units.ts'
import { printable } from '../lib/text.ts'
import { maintenanceColour, maintenanceWords } from './host/maintenance-words.ts'
import { listVms } from './vm/list.ts'
import { troubleWords } from './snapshot/snapshot-words.ts'
import { isSettled } from '../client/vm-words.ts'
import { DAY_MS } from '../lib/time-units.ts'
import type { components } from '../client/schema.d.ts'
import type { Command, Context } from './command.ts'
import type { Colour } from './text.ts'

type Sync = components['schemas']['Sync']

export const syncCommand: Command = {
  words: ['sync'],
  summary: 'show the host: version, capacity and problems',
  description:
    'Figures are measured when they are shown. If the host cannot be inspected, the reason and the states of its VMs are ' +
    'shown instead.',
  options: [],
  examples: [
    ['', 'what the host has left'],
    [
      "--json | jq '.capacity.memory | .allocatable_mib - .committed_mib'",
      'memory that further VMs may have',
    ],
  ],
  run: async (context) => {
    const call = answered(context.client().GET('/v1/sync', {}))
    const { data: sync } = await call.catch((error: unknown) => failWithRest(error, context))
    context.print(sync, () => renderSync(sync, context))
    return exitStatus.done
  },
}

/** Shows the version and the states of the VMs for a host that cannot be inspected. Throws the error afterwards. */
async function failWithRest(error: unknown, context: Context): Promise<never> {
  const uninspected =
    error instanceof ApiProblem && error.problem.status === 503 && error.code !== 'starting_up'
  if (uninspected && !context.json) {
    const client = context.client()
    const { data: health } = await answered(client.GET('/healthz', {}))
    const vms = await listVms(client)
    const summaries = vms.map(({ observed, ...rest }) => ({
      ...rest,
      state: observed.state,
      error: observed.error,
    }))
    const facts = [['vmhostd', health.version] as const, ['VMs', vmWords(summaries)] as const]
    const parts = [renderFacts(facts, context.paint), renderFailing(summaries, context)]
    context.shell.stdout.write(parts.filter((part) => part !== '').join('\n'))
  }
  throw error
}

type Standing = Pick<Sync['vms'][number], 'id' | 'generations' | 'state'> & {
  readonly error?: string | undefined
}

/** Returns whether nothing keeps the VM from its desired state, as far as the host knows. */
const isAsDesired = ({ error, generations }: Standing): boolean =>
  error === undefined && isSettled({ generations })

function vmWords(vms: readonly Standing[]): string {
  const settled = vms.filter(isAsDesired).length
  const asleep = vms.filter(({ state }) => state === 'sleeping').length
  return `${vms.length}, ${settled} as desired${asleep === 0 ? '' : `, ${asleep} asleep`}`
}

function renderSync(sync: Sync, context: Context): string {
  return [
    renderHost(sync, context),
    renderCapacity(sync, context),
    renderFailing(sync.vms, context),
    renderTroubled(sync, context),
  ]
    .filter((part) => part !== '')
    .join('\n')
}

function renderHost(sync: Sync, { paint }: Context): string {
  const { host, capacity, vms, images, snapshots, staging, consoles } = sync
  const { protected: safe, running_units: running, unprotected } = consoles
  const facts = renderFacts(
    [
      ['vmhostd', host.version],
      ...host.monitors.flatMap((monitor) => [
        ['monitor', monitorWords(monitor)] as const,
        ['because', monitor.because] as const,
      ]),
      ['kernel', `${host.kernel}, ${host.architecture}`],
      ['clock', host.clock],
      ...maintenanceFacts(host),
      ...faultFacts(host),
      ['SSH key', host.ssh_public_key],
      ...certificateFacts(host),
      ...revocationFacts(host),
      ['VMs', vmWords(vms)],
      ['resident', residentWords(capacity.memory)],
      ['waiting', waitingWords(capacity.memory), 'yellow'],
      ['images', `${images.length}, ${images.filter((image) => image.use_count > 0).length} in use`],
      ['snapshots', snapshotWords(snapshots)],
      ['staging', stagingWords(staging)],
      ['consoles', `${safe} of ${running} running VMs protected`, safe === running ? undefined : 'red'],
      ['unprotected', unprotected.length === 0 ? undefined : unprotected.join(' '), 'red'],
    ],
    paint,
  )
  return `${paint(printable(host.id), 'bold')}\n${facts}`
}

const faultFacts = ({ faults = [] }: Sync['host']): [string, string, Colour | undefined][] =>
  faults.map(({ code, detail }) => ['fault', `${detail} (${code})`, 'red'])

/** Returns a fact about a host that is out of service. */
const maintenanceFacts = ({ maintenance }: Sync['host']): [string, string, Colour | undefined][] =>
  maintenance.state === 'schedulable'
    ? []
    : [['maintenance', maintenanceWords(maintenance), maintenanceColour(maintenance)]]

/** Returns how much of their memory running VMs have; undefined if that is unknown, or if no VM runs. */
function residentWords({
  resident_mib: resident = 0,
  not_resident_mib: rest = 0,
}: Sync['capacity']['memory']): string | undefined {
  if (resident + rest === 0) return undefined
  return `${showMib(resident)} of the ${showMib(resident + rest)} of running VMs`
}

const waitingWords = ({ waiting_vms: count }: Sync['capacity']['memory']): string | undefined =>
  count === 0 ? undefined : `${count} ${count === 1 ? 'VM waits' : 'VMs wait'} for memory`

function monitorWords(monitor: Sync['host']['monitors'][number]): string {
  const { program, version = 'cannot be run', accelerator, offered } = monitor
  const role = monitor.default ? ', for new VMs' : ''
  return offered ? `${program} ${version}, ${accelerator}${role}` : `${program}, not offered${role}`
}

/** Days before its end from which a certificate is shown in red; the log of the host warns at the same time. */
const SOON_DAYS = limits.certificateWarningDays

/**
 * Returns facts about the certificate that expires first, by the clock of the host, which decides what is valid there.
 */
function certificateFacts({
  certificates,
  clients,
  clock,
}: Sync['host']): [string, string, Colour | undefined][] {
  const others = clients
    .filter(({ role }) => role === 'reader' || role === 'console')
    .map(({ name, not_after }) => ({ name: `client ${name}`, not_after }))
  const all: readonly { readonly name: string; readonly not_after: string }[] = [...certificates, ...others]
  const [first] = all.toSorted((a, b) => Date.parse(a.not_after) - Date.parse(b.not_after))
  if (first === undefined) return []
  const days = Math.floor((Date.parse(first.not_after) - Date.parse(clock)) / DAY_MS)
  const words = `${first.not_after.slice(0, 10)}, the certificate of the ${first.name.replaceAll('_', ' ')}`
  return [[days < 0 ? 'TLS ended' : 'TLS until', words, days <= SOON_DAYS ? 'red' : undefined]]
}

/** Returns a fact about the revocation list; it is red past the time at which a newer one was due. */
function revocationFacts({
  revocation_list: list,
  clock,
}: Sync['host']): [string, string, Colour | undefined][] {
  if (list === undefined) return []
  const { revoked, next_update: due } = list
  const isOld = due !== undefined && Date.parse(due) < Date.parse(clock)
  const words = `${revoked} ${revoked === 1 ? 'certificate' : 'certificates'}${due === undefined ? '' : `, a newer list due ${due.slice(0, 10)}`}`
  return [['revoked', words, isOld ? 'red' : undefined]]
}

function snapshotWords(snapshots: Sync['snapshots']): string {
  const count = (status: Sync['snapshots'][number]['status']): number =>
    snapshots.filter((snapshot) => snapshot.status === status).length
  const parts = (['pending', 'uploading', 'failed'] as const)
    .map((status) => [count(status), status] as const)
    .filter(([number]) => number > 0)
  return [String(snapshots.length), ...parts.map(([number, status]) => `${number} ${status}`)].join(', ')
}

function stagingWords({
  packed_mib: packed,
  sent_mib: sent,
  clones_mib_max: clones,
  quota_mib: quota,
}: Sync['staging']): string {
  const captured = clones === 0 ? '' : `, captured disks of up to ${showMib(clones)}`
  const ofThese = sent === 0 ? '' : `, ${showMib(sent)} of it sent`
  return `${showMib(packed)} of ${showMib(quota)}${ofThese}${captured}`
}

function renderCapacity({ capacity: { cpu, memory, disks } }: Sync, { shell, paint }: Context): string {
  const rows = [
    ['CPU', showCores(cpu.total_millicores), '', showCores(cpu.committed_millicores), '', ''],
    ['memory', ...figures(memory)],
    ...disks.map((disk) => [`disk ${shortId(disk.pool)}`, ...figures(disk)]),
  ]
  const head = ['CAPACITY', 'TOTAL', 'AVAILABLE', 'COMMITTED', 'ALLOCATABLE', 'LEFT']
  return renderTable(head, rows, { sink: shell.stdout, paint })
}

/** Shortens the id of a pool, to leave room for its free space. */
const shortId = (id: string): string =>
  id.length <= POOL_CHARACTERS ? id : `${id.slice(0, POOL_CHARACTERS - 1)}…`

const POOL_CHARACTERS = 9

const figures = (
  of: Pick<Sync['capacity']['memory'], 'total_mib' | 'available_mib' | 'committed_mib' | 'allocatable_mib'>,
): string[] => [
  showMib(of.total_mib),
  showMib(of.available_mib),
  showMib(of.committed_mib),
  showMib(of.allocatable_mib),
  of.allocatable_mib < of.committed_mib
    ? `-${showMib(of.committed_mib - of.allocatable_mib)}`
    : showMib(of.allocatable_mib - of.committed_mib),
]

/** Lists VMs that are not as desired; `vm ls` lists the others. */
function renderFailing(vms: readonly Standing[], { shell, paint }: Context): string {
  const rows = vms
    .filter((vm) => !isAsDesired(vm))
    .map(({ id, state, error, generations: { desired, observed } }) => [
      id,
      state,
      desired === observed ? String(desired) : `${observed} of ${desired}`,
      { text: causeFirst(error ?? ''), colour: 'red' as const },
    ])
  if (rows.length === 0) return ''
  const head = ['NOT AS DESIRED', 'STATE', 'GENERATION', 'ERROR']
  return renderTable(head, rows, { sink: shell.stdout, paint, lastBelow: true })
}

/** Lists snapshots that wait or have failed. */
function renderTroubled({ snapshots }: Sync, { shell, paint }: Context): string {
  const rows = snapshots
    .map((snapshot) => ({ ...snapshot, why: troubleWords(snapshot, urlsWords(snapshot)) }))
    .filter(({ why }) => why !== undefined)
    .map(({ id, vm_id: vm, status, percent, why = '' }) => [
      id,
      vm,
      status,
      `${percent} %`,
      { text: why, colour: 'yellow' as const },
    ])
  if (rows.length === 0) return ''
  const head = ['SNAPSHOTS IN TROUBLE', 'VM', 'STATUS', 'DONE', 'WHY']
  return renderTable(head, rows, { sink: shell.stdout, paint, lastBelow: true })
}

function urlsWords({ id, needs_urls: needsUrls }: Sync['snapshots'][number]): string | undefined {
  return needsUrls ? `: vmhostctl snapshot get ${id}` : undefined
}
