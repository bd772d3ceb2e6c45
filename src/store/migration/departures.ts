import { DEPARTURE_STAGES, isUndecided } from '../../core/migration/departure.ts'
import { readDeparted } from './departed.ts'
import { MoveColumn } from './move-column.ts'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { MoveColumnOptions } from './move-column.ts'

/** How far VMs have left this host. */
export class Departures extends MoveColumn<Departure> {
  readonly #options: MoveColumnOptions

  constructor(options: MoveColumnOptions) {
    super('departure', options)
    this.#options = options
  }

  /** Returns the VM whose newest migration from this host has this id. */
  of(id: MigrationId): VmRecord | undefined {
    const row = this.statements
      .of("SELECT id FROM vms WHERE departure ->> '$.id' = ? AND departure IS NOT NULL")
      .get(id)
    return row && this.#options.vms.get(row['id'] as VmId)
  }

  /** Returns the departure of a VM that was released by this migration and then deleted. */
  departed(id: MigrationId): Departure | undefined {
    return readDeparted(this.#options.db, id)
  }

  /** Lists the VMs that a node may take, or is taking, in the order of ids; those whose records cannot be read are left out. */
  undecided(): VmRecord[] {
    const rows = this.statements
      .of(`SELECT id FROM vms WHERE ${IS_UNDECIDED} ORDER BY id`)
      .all({ undecided: UNDECIDED })
    return rows.flatMap((row) => this.#options.vms.readable(row['id'] as VmId) ?? [])
  }

  /** Returns whether a node may take the VM, or is taking it. Cheap, because it is asked at each change of a VM. */
  isUndecided(id: VmId): boolean {
    const statement = this.statements.of(`SELECT 1 FROM vms WHERE id = :id AND ${IS_UNDECIDED}`)
    return statement.get({ id, undecided: UNDECIDED }) !== undefined
  }
}

const UNDECIDED = JSON.stringify(DEPARTURE_STAGES.filter((stage) => isUndecided({ stage })))
const IS_UNDECIDED =
  "departure IS NOT NULL AND departure ->> '$.stage' IN (SELECT value FROM json_each(:undecided))"
