import { ARRIVAL_STAGES, isComing } from '../../core/migration/arrival.ts'
import { MoveColumn } from './move-column.ts'
import type { VmId } from '../../core/ids.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { MoveColumnOptions } from './move-column.ts'

/** How far VMs have come to this host. */
export class Arrivals extends MoveColumn<Arrival> {
  constructor(options: MoveColumnOptions) {
    super('arrival', options)
  }

  /** Lists the VMs that were released to this host since then, in the order of ids. */
  releasedSince(sinceMs: number): VmId[] {
    const rows = this.statements
      .of(
        "SELECT id FROM vms WHERE CASE WHEN json_valid(arrival) THEN arrival ->> '$.releasedAtMs' >= ? END ORDER BY id",
      )
      .all(sinceMs)
    return rows.map((row) => row['id'] as VmId)
  }

  /**
   * Lists the VMs that come from another host and are not released to this one, in the order of ids; those whose record
   * does not say so are left out.
   */
  coming(): VmId[] {
    const rows = this.statements
      .of(`SELECT id FROM vms WHERE CASE WHEN json_valid(arrival) THEN ${IS_COMING} END ORDER BY id`)
      .all({ coming: COMING })
    return rows.map((row) => row['id'] as VmId)
  }

  /** Returns whether a VM comes by this attempt. Throws if a record does not say by which one its VM comes. */
  isAwaited(arrival: ArrivalId): boolean {
    const statement = this.statements.of(
      `SELECT 1 FROM vms WHERE arrival ->> '$.id' = :arrival AND ${IS_COMING}`,
    )
    return statement.get({ arrival, coming: COMING }) !== undefined
  }
}

const IS_COMING = "arrival ->> '$.stage' IN (SELECT value FROM json_each(:coming))"
const COMING = JSON.stringify(ARRIVAL_STAGES.filter((stage) => isComing({ stage })))
