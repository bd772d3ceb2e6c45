import { ARRIVAL_STAGES, isComing } from '../../core/migration/arrival.ts'
import { MoveColumn } from './move-column.ts'
import type { VmId } from '../../core/ids.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { MoveColumnOptions } from './move-column.ts'

/** How far VMs have come to this host. */
export class Arrivals extends MoveColumn<Arrival> {
  constructor(options: MoveColumnOptions) {
    super('arrival', options)
  }

  /** Lists the VMs that were released to this host since then, in the order of ids. */
  releasedSince(sinceMs: number): VmId[] {
    const rows = this.statements
      .of("SELECT id FROM vms WHERE arrival ->> '$.releasedAtMs' >= ? ORDER BY id")
      .all(sinceMs)
    return rows.map((row) => row['id'] as VmId)
  }

  /** Lists the VMs that come from another host and are not released to this one, in the order of ids. */
  coming(): VmId[] {
    const rows = this.statements
      .of(
        "SELECT id FROM vms WHERE arrival ->> '$.stage' IN (SELECT value FROM json_each(:coming)) ORDER BY id",
      )
      .all({ coming: COMING })
    return rows.map((row) => row['id'] as VmId)
  }
}

const COMING = JSON.stringify(ARRIVAL_STAGES.filter((stage) => isComing({ stage })))
