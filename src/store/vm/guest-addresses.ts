import { networkContains, networksOverlap } from '../../core/network/address.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'

type Row<Column extends string> = { readonly id: VmId } & { readonly [Name in Column]: string }

/** Knows which VM has an address. A VM under deletion has its addresses until its record is gone. */
export class GuestAddresses {
  readonly #statements: Statements

  constructor(db: DatabaseSync) {
    this.#statements = new Statements(db)
  }

  /** Returns the VM, other than `except`, that has this address or has it in its prefix. */
  holder(address: string, except?: VmId): VmId | undefined {
    const row = this.#statements
      .of('SELECT id FROM vms WHERE (ipv4_address = ?1 OR ipv6_address = ?1) AND id IS NOT ?2')
      .get(address, except ?? null)
    if (row !== undefined) return row['id'] as VmId
    return this.#prefixes(except).find(({ prefix }) => networkContains(prefix, address))?.id
  }

  /** Returns a VM, other than `except`, that has an address or a prefix which overlaps this IPv6 network. */
  prefixHolder(network: string, except?: VmId): VmId | undefined {
    const addresses = this.#statements
      .of('SELECT id, ipv6_address AS address FROM vms WHERE ipv6_address IS NOT NULL AND id IS NOT ?')
      .all(except ?? null) as Row<'address'>[]
    const holder =
      this.#prefixes(except).find(({ prefix }) => networksOverlap(prefix, network)) ??
      addresses.find(({ address }) => networkContains(network, address))
    return holder?.id
  }

  #prefixes(except: VmId | undefined): readonly Row<'prefix'>[] {
    return this.#statements
      .of('SELECT id, ipv6_prefix AS prefix FROM vms WHERE ipv6_prefix IS NOT NULL AND id IS NOT ?')
      .all(except ?? null) as Row<'prefix'>[]
  }
}
