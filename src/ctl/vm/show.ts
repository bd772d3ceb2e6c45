import { answered } from '../../client/api-client.ts'
import { isEnded, labelsOf } from '../../client/vm-words.ts'
import { exitStatus } from '../exit-status.ts'
import { ago, renderFacts, spanSince } from '../text.ts'
import { showCores, showMib } from '../../lib/shown-units.ts'
import { printable, printableLines } from '../../lib/text.ts'
import { exitFacts } from './exit.ts'
import { moveFacts } from './move-facts.ts'
import {
  idleWords,
  guestFacts,
  sleepFacts,
  stopFacts,
  errorWords,
  generationWords,
  stateColour,
  waitWords,
} from './vm-words.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Command } from '../command.ts'
import type { Paint } from '../text.ts'

export const getCommand: Command = {
  words: ['vm', 'get'],
  summary: 'show one VM',
  description:
    'Shows the desired state of the VM and what the host has reached. --json prints the whole resource as the API has it.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [],
  examples: [
    ['web-1', 'for reading'],
    ['web-1 --json | jq .observed.fault', 'a part of it, for a program'],
  ],
  run: async ({ client, given, print, paint, shell }) => {
    const path = { id: given.operand }
    const { data: vm } = await answered(client().GET('/v1/vms/{id}', { params: { path } }))
    print(vm, () => renderVm(vm, shell.nowMs(), paint))
    return exitStatus.done
  },
}

/** Renders a VM for people. */
export function renderVm(vm: Vm, nowMs: number, paint: Paint): string {
  const { desired, observed } = vm
  const { network } = desired
  const facts = renderFacts(
    [
      [
        'state',
        `${observed.state} for ${spanSince(observed.state_since, nowMs)}${endWords(vm)}`,
        stateColour(vm),
      ],
      ['waits for', waitWords(vm)],
      ['error', errorWords(vm, nowMs), 'red'],
      ...(observed.partial_faults ?? []).map(
        ({ step, detail, code }) => ['also', `${step}: ${detail} (${code})`, 'yellow'] as const,
      ),
      ['desired', desired.power],
      ['monitor', vm.monitor],
      ['generation', generationWords(vm)],
      ['compute', computeWords(vm)],
      ['readiness', checkWords(vm)],
      ...guestFacts(vm, nowMs),
      ...sleepFacts(vm, nowMs),
      ...stopFacts(vm, nowMs),
      ...exitFacts(vm, nowMs),
      ...moveFacts(vm, nowMs),
      ['disk', diskWords(vm)],
      ['network', network === undefined ? 'none' : addressWords(network)],
      ['prefix', network?.ipv6_prefix],
      ['name servers', network?.name_servers?.join(', ')],
      ['bandwidth', network?.bandwidth === undefined ? undefined : bandwidthWords(network.bandwidth)],
      ['inbound', network?.firewall?.inbound?.map(inboundWords).join('; ')],
      ['outbound', network?.firewall?.outbound?.map(outboundWords).join('; ')],
      ['labels', labelsOf(vm).join(' ') || undefined],
      ['protected', vm.protected ? 'against deletion' : undefined],
      ['image', imageWords(desired.image)],
      ['kernel args', desired.image.kernel_arguments],
      ['created', `${vm.created_at}, ${ago(vm.created_at, nowMs)}`],
    ],
    paint,
  )
  return `${paint(printable(vm.id), 'bold')}\n${facts}`
}

const endWords = (vm: Vm): string =>
  isEnded(vm) ? `: its guest ended, and vmhostctl vm start ${vm.id} starts it` : ''

function checkWords({ desired: { readiness } }: Vm): string | undefined {
  if (readiness === undefined) return undefined
  const { protocol, port, path = '' } = readiness
  return `${protocol}:${port}${path}`
}

function computeWords(vm: Vm): string {
  const { compute } = vm.desired

  const shape = ({ cpu_millicores: cpu, memory_mib: memory }: Vm['desired']['compute']): string =>
    `${showCores(cpu)} CPU, ${showMib(memory)}`
  const now = vm.observed.compute
  const differs = now !== undefined && shape(now) !== shape(compute) ? `; runs with ${shape(now)}` : ''
  const promised = compute.wake === 'guaranteed' ? ', keeps its memory promised while it sleeps' : ''
  return `${shape(compute)}${idleWords(vm)}${promised}${differs}`
}

function diskWords({ desired, observed }: Vm): string {
  const { size_mib: size, iops_max: iops, mib_per_second_max: rate } = desired.disk
  const { size_mib: there, guest_size_mib: guest } = observed.disk ?? {}
  const owesRebuild = (desired.image.rebuild ?? 0) > (observed.rebuild ?? 0)
  return [
    showMib(size),
    ...(owesRebuild ? ['to be made again from its image'] : []),
    ...(there !== undefined && there !== size ? [`has ${showMib(there)} so far`] : []),
    ...(guest !== undefined && guest !== size
      ? [`the guest sees ${showMib(guest)} until its next start`]
      : []),
    ...(iops === undefined ? [] : [`at most ${iops} operations a second`]),
    ...(rate === undefined ? [] : [`at most ${rate} MiB/s`]),
  ].join(', ')
}

type Network = NonNullable<Vm['desired']['network']>

const addressWords = (network: Network): string =>
  [network.ipv4_address, network.ipv6_address, network.mac_address]
    .filter((one) => one !== undefined)
    .join(', ')

const bandwidthWords = (bandwidth: NonNullable<Network['bandwidth']>): string =>
  [
    `to the guest ${rateWords(bandwidth.receive_mbit_per_second)}`,
    `from the guest ${rateWords(bandwidth.transmit_mbit_per_second)}`,
  ].join(', ')

const rateWords = (mbit: number | undefined): string =>
  mbit === undefined ? 'not limited' : `${mbit} Mbit/s`

type Firewall = NonNullable<Network['firewall']>
type InboundRule = NonNullable<Firewall['inbound']>[number]
type OutboundRule = NonNullable<Firewall['outbound']>[number]

const inboundWords = ({ sources, ...rule }: InboundRule): string =>
  `${trafficWords(rule)} from ${sources === undefined ? 'anywhere' : sources.join(', ')}`

const outboundWords = ({ action, destinations, ...rule }: OutboundRule): string =>
  `${action} ${trafficWords(rule)} to ${destinations === undefined ? 'anywhere' : destinations.join(', ')}`

const trafficWords = ({ protocol, ports }: Pick<InboundRule, 'protocol' | 'ports'>): string =>
  ports === undefined ? protocol : `${protocol} ${ports.join(',')}`

const DIGEST_SHOWN = 12

function imageWords(image: Vm['desired']['image']): string {
  const { rootfs, kernel, initrd } = image
  return Object.entries({ rootfs, kernel, initrd })
    .flatMap(([name, one]) => (one === undefined ? [] : [`${name} ${one.sha256.slice(0, DIGEST_SHOWN)}…`]))
    .join(', ')
}

export const planCommand: Command = {
  words: ['vm', 'plan'],
  summary: 'show what the daemon will do next for a VM, and why',
  description:
    'Looks at the host, and prints each step with its reason, or what the VM waits for. Changes nothing.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [],
  examples: [
    ['web-1', 'when it is not as desired and you want to know why'],
    ['web-1 --json | jq -r .outcome', 'settled, act, wait or blocked'],
  ],
  run: async ({ client, given, print }) => {
    const path = { id: given.operand }
    const { data: plan } = await answered(client().GET('/v1/vms/{id}/plan', { params: { path } }))
    print(plan, () => printableLines(plan.text))
    return exitStatus.done
  },
}
