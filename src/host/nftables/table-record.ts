import { createHash } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { compileRuleset } from '../../core/network/ruleset.ts'
import type { GuestRule } from '../../core/world/network-state.ts'
import type { FirewallPolicy } from '../../core/network/ruleset.ts'
import type { Identity } from './table-identity.ts'

/** The table as a daemon left it: the rules of its guests, and digests of its text and of its state in the kernel. */
export type TableRecord = {
  readonly guests: readonly GuestRule[]
  readonly text: string
  readonly table: string
}

/** The state of a table as the kernel shows it. */
export type FoundTable = { readonly identity: Identity; readonly elements: ReadonlySet<string> }

export function recordTable(
  policy: FirewallPolicy,
  guests: readonly GuestRule[],
  found: FoundTable,
): TableRecord {
  return { guests, text: textDigest(policy, guests), table: tableDigest(found) }
}

/**
 * Compares a table with the record that the previous daemon left of it. `altered`: another program has changed it
 * since. `other`: this daemon would write another table for these guests, as after an upgrade. `same`: neither.
 */
export function judgeTable(
  { guests, text, table }: TableRecord,
  policy: FirewallPolicy,
  found: FoundTable,
): 'altered' | 'other' | 'same' {
  if (tableDigest(found) !== table) return 'altered'
  return textDigest(policy, guests) === text ? 'same' : 'other'
}

const textDigest = (policy: FirewallPolicy, guests: readonly GuestRule[]): string =>
  digest([compileRuleset(policy, guests)])

const tableDigest = ({ identity, elements }: FoundTable): string =>
  digest([...[...identity].map(([key, mark]) => `${key}=${mark}`), ...elements].toSorted())

const digest = (lines: readonly string[]): string =>
  createHash('sha256').update(lines.join('\n')).digest('hex')

/**
 * Holds the record that a daemon leaves for the next one. It is in the run directory, which is lost at a reboot, as the
 * table is.
 */
export class TableRecordFile {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /**
   * Returns the record once, because later changes of the table are not in it. Undefined if there is none that can be
   * read.
   */
  take(): TableRecord | undefined {
    try {
      const text = readFileSync(this.#path, 'utf8')
      rmSync(this.#path)
      return JSON.parse(text) as TableRecord
    } catch {
      return undefined
    }
  }

  /** Writes the record. Without one the next daemon writes the table again. */
  leave(record: TableRecord): void {
    try {
      writeFileSync(this.#path, JSON.stringify(record), { mode: 0o600 })
    } catch {
      // An incomplete record is not valid JSON.
    }
  }
}
