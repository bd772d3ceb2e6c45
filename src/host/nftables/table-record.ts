import { createHash } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { compileRuleset } from '../../core/network/ruleset.ts'
import type { GuestRule } from '../../core/network/guest-rule.ts'
import type { FirewallPolicy } from '../../core/network/ruleset.ts'
import type { Identity } from './table-identity.ts'

/** The table as a daemon left it: the rules of its guests, and digests of its text and of what the kernel shows of it. */
export type TableRecord = {
  readonly guests: readonly GuestRule[]
  readonly text: string
  readonly table: string
}

/** What the kernel shows of a table. */
export type FoundTable = { readonly identity: Identity; readonly elements: ReadonlySet<string> }

export function recordTable(
  policy: FirewallPolicy,
  guests: readonly GuestRule[],
  found: FoundTable,
): TableRecord {
  return { guests, text: textDigest(policy, guests), table: tableDigest(found) }
}

/**
 * What a table is that the daemon before left with this record: `altered` by somebody since, `other` than this daemon
 * would write for these guests, as after an upgrade, or `same`.
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

/** Where a daemon leaves its record for the next one: in the run directory, which ends with the boot, as the table does. */
export class TableRecordFile {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /** The record, once: what is done to the table from now on is not in it. Undefined if there is none that can be read. */
  take(): TableRecord | undefined {
    try {
      const text = readFileSync(this.#path, 'utf8')
      rmSync(this.#path)
      return JSON.parse(text) as TableRecord
    } catch {
      return undefined
    }
  }

  /** Without a record the next daemon writes the table again. */
  leave(record: TableRecord): void {
    try {
      writeFileSync(this.#path, JSON.stringify(record), { mode: 0o600 })
    } catch {
      // A record that is not whole is not valid JSON.
    }
  }
}
