import { readJsonFile } from '../json-file.ts'
import { changeVm, DRY_RUN_OPTION, dryRunQuery, requireOne } from './change.ts'
import { WAIT_OPTIONS } from './wait.ts'
import type { paths } from '../../client/schema.d.ts'
import type { Command, Context, Option } from '../command.ts'

type SetNetwork = paths['/v1/vms/{id}/network']['put']['requestBody']['content']['application/json']

const NETWORK_OPTIONS: readonly Option[] = [
  { name: 'ipv4', value: 'ADDRESS', help: 'address of the guest; none: it has no IPv4 address' },
  { name: 'ipv6', value: 'ADDRESS', help: 'address of the guest; none: it has no IPv6 address' },
  { name: 'mac', value: 'ADDRESS', help: "of the guest's network device; none: the host chooses" },
  {
    name: 'file',
    value: 'FILE',
    help: 'what to change as JSON, - for standard input; other options go over it',
    completes: 'file',
  },
]

const FILE_ADVICE =
  'the file is the JSON body of PUT /v1/vms/{id}/network, e.g. {"firewall":{"inbound":[{"protocol":"tcp","ports":["22"]}]}}'

/** The word for `null` on a command line. */
const REMOVED = 'none'

export const networkCommand: Command = {
  words: ['vm', 'network'],
  summary: 'change addresses, bandwidth or firewall',
  description:
    'What is not given stays as it is; none on the command line, or null in the file, removes it. Addresses change only ' +
    'while the VM is stopped; bandwidth and firewall, which only the file can give, at any time.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...NETWORK_OPTIONS, ...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --ipv4 192.0.2.11 --ipv6 none', 'of a stopped VM: vmhostctl vm stop web-1 --wait comes first'],
    ['web-1 --file firewall.json --wait', 'of a VM that runs'],
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
    mac_address: given.text('mac'),
  }
  const named = Object.entries(addresses).filter(([, value]) => value !== undefined)
  const changed = named.map(([name, value]) => [name, value === REMOVED ? null : value] as const)
  // The daemon checks the content of the file.
  return { ...file, ...Object.fromEntries(changed) }
}
