import { DEVICE_PREFIX } from '../../core/network/tap.ts'
import { run } from '../exec/exec.ts'
import { TABLE } from './nft-firewall.ts'

/** A chain in libnftables-json(5). Only a base chain has a hook and a policy. */
type Chain = {
  readonly family: string
  readonly table: string
  readonly name: string
  readonly hook?: string
  readonly policy?: string
}

/**
 * Returns the tables that drop or reject what the host forwards unless a rule accepts it, and have no rule about
 * devices of guests, e.g. `ip filter`. What one table drops stays dropped, whatever the others say (nft(8), "verdict
 * statement"). Throws HostFault `tool_missing` or ExitError.
 */
export async function forwardDrops(): Promise<readonly string[]> {
  const { stdout } = await run(['nft', '--json', 'list', 'chains'])
  const found: string[] = []
  for (const { family, table, chains } of forwardingTablesIn(stdout)) {
    const { stdout: rules } = await run(['nft', 'list', 'table', family, table])
    if (rules.includes(`"${DEVICE_PREFIX}`)) continue
    if (chains.some(({ name, policy }) => policy === 'drop' || endsInRefusal(rules, name)))
      found.push(`${family} ${table}`)
  }
  return found
}

type Table = Pick<Chain, 'family' | 'table'> & { readonly chains: readonly Pick<Chain, 'name' | 'policy'>[] }

/** Returns the tables of others with base chains on forwarded packets, and these chains. */
export function forwardingTablesIn(json: string): readonly Table[] {
  const { nftables } = JSON.parse(json) as { nftables: readonly { readonly chain?: Chain }[] }
  const forwarding = nftables.flatMap(({ chain }) =>
    chain?.hook === 'forward' && FAMILIES.has(chain.family) && chain.table !== TABLE ? [chain] : [],
  )
  const byTable = Map.groupBy(forwarding, ({ family, table }) => `${family} ${table}`)
  return [...byTable.values()].flatMap((chains) =>
    chains.slice(0, 1).map(({ family, table }) => ({ family, table, chains })),
  )
}

/** A rule for every packet that drops or rejects it (nft(8), "verdict statement" and "reject statement"). */
const REFUSAL = /^(counter packets \d+ bytes \d+ )?(drop|reject( with .+)?)( comment ".*")?$/

/**
 * Returns whether the last rule of a chain refuses all packets, as that of firewalld does.
 * `rules` is the table as nft lists it.
 */
export function endsInRefusal(rules: string, chain: string): boolean {
  const lines = rules.split('\n').map((line) => line.trim())
  const begin = lines.indexOf(`chain ${chain} {`)
  const end = lines.indexOf('}', begin)
  return begin >= 0 && REFUSAL.test(lines[end - 1] ?? '')
}

/** Families whose forwarded packets are routed ones. */
const FAMILIES = new Set(['ip', 'ip6', 'inet'])
