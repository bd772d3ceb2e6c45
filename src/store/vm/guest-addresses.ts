import { networkContains, networksOverlap } from '../../core/network/address.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Desired } from '../../core/desired.ts'
import type { DeviceName, UserId, VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'

type Row<Column extends string> = { readonly id: VmId } & { readonly [Name in Column]: string }

/**
 * Knows what each VM wants of the network, and which VM has an address. A VM under deletion has its addresses until its
 * record is gone.
 */
export class GuestAddresses {
  readonly #statements: Statements

  constructor(db: DatabaseSync) {
    this.#statements = new Statements(db)
  }

  /**
   * Returns a VM's place on the host and what it wants, without the rest of its record; undefined if the VM is gone.
   * Throws if that is not JSON.
   */
  wantedBy(id: VmId): Pick<VmRecord, 'id' | 'host' | 'desired'> | undefined {
    const row = this.#statements.of('SELECT user_id, device, desired FROM vms WHERE id = ?').get(id)
    if (row === undefined) return undefined
    return {
      id,
      host: { userId: row['user_id'] as UserId, device: row['device'] as DeviceName },
      desired: JSON.parse(row['desired'] as string) as Desired,
    }
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
