import { answered } from '../../client/api-client.ts'
import { exitStatus } from '../exit-status.ts'
import { renderFacts } from '../text.ts'
import type { components } from '../../client/schema.d.ts'
import type { Command } from '../command.ts'
import type { Fact } from '../text.ts'

type Counters = components['schemas']['Counters']

export const countersCommand: Command = {
  words: ['vm', 'counters'],
  summary: 'show what a VM has used, and since when',
  description:
    'CPU time, traffic, disk operations, wakes and restarts. Each is counted since the time beside it. When that time ' +
    'changes, the count has started again at 0.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [],
  examples: [
    ['web-1', 'for reading'],
    ['web-1 --json | jq .cpu', 'for billing'],
  ],
  run: async ({ client, given, paint, print }) => {
    const path = { id: given.operand }
    const { data } = await answered(client().GET('/v1/vms/{id}/counters', { params: { path } }))
    print(data, () => renderFacts(factsOf(data), paint).trimEnd())
    return exitStatus.done
  },
}

const sinceWords = (part: { readonly since: string }, words: string): string =>
  `${words}, since ${part.since}`

function factsOf({ at, cpu, network, disk, wakes, restarts }: Counters): readonly Fact[] {
  return [
    ['at', at],
    ['CPU', cpu && sinceWords(cpu, `${(cpu.used_ms / 1000).toFixed(1)} s`)],
    [
      'received',
      network && sinceWords(network, `${network.received_bytes} bytes, ${network.received_packets} packets`),
    ],
    [
      'sent',
      network &&
        sinceWords(network, `${network.transmitted_bytes} bytes, ${network.transmitted_packets} packets`),
    ],
    ['read', disk && sinceWords(disk, `${disk.read_bytes} bytes, ${disk.read_operations} operations`)],
    ['written', disk && sinceWords(disk, `${disk.written_bytes} bytes, ${disk.write_operations} operations`)],
    ['wakes', wakes && sinceWords(wakes, String(wakes.count))],
    ['restarts', restarts && sinceWords(restarts, String(restarts.count))],
  ]
}
