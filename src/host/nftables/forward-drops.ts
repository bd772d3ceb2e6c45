import { DEVICE_PREFIX } from '../../core/network/tap.ts'
import { run } from '../exec/exec.ts'

/** A chain in libnftables-json(5). Only a base chain has a hook and a policy. */
type Chain = {
  readonly family: string
  readonly table: string
  readonly hook?: string
  readonly policy?: string
}

/**
 * Returns the tables that drop what the host forwards unless a rule accepts it, and have no rule about devices of guests,
 * e.g. `ip filter`. What one table drops stays dropped, whatever the others say (nft(8), "verdict statement"). Throws
 * HostFault `tool_missing` or ExitError.
 */
export async function forwardDrops(): Promise<readonly string[]> {
  const { stdout } = await run(['nft', '--json', 'list', 'chains'])
  const found: string[] = []
  for (const { family, table } of droppingTablesIn(stdout)) {
    const rules = await run(['nft', 'list', 'table', family, table])
    if (!rules.stdout.includes(`"${DEVICE_PREFIX}`)) found.push(`${family} ${table}`)
  }
  return found
}

type Table = { readonly family: string; readonly table: string }

/** Returns the tables with a base chain on forwarded packets whose policy drops them. */
export function droppingTablesIn(json: string): readonly Table[] {
  const { nftables } = JSON.parse(json) as { nftables: readonly { readonly chain?: Chain }[] }
  const found = new Map<string, Table>()
  for (const { chain } of nftables) {
    if (chain?.hook !== 'forward' || chain.policy !== 'drop' || !FAMILIES.has(chain.family)) continue
    const { family, table } = chain
    found.set(`${family} ${table}`, { family, table })
  }
  return [...found.values()]
}

/** Families whose forwarded packets are routed ones. */
const FAMILIES = new Set(['ip', 'ip6', 'inet'])
