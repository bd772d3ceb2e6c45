import { afterEvent, isUndecided, refuseRead } from '../../core/migration/departure.ts'
import { err, ok } from '../../lib/result.ts'
import type { ArrivalId, Departure, DepartureEvent, SourceRefusal } from '../../core/migration/departure.ts'
import type { VmId } from '../../core/ids.ts'
import type { MigrationId, NodeName } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { DepartureContext } from './context.ts'

/** A request of a destination: the migration, the node that asks, and its attempt. */
export type Move = { readonly id: MigrationId; readonly node: NodeName; readonly arrival: ArrivalId }

/** A VM that leaves or has left, with its migration. */
export type FoundMove = {
  /** Absent if the VM was released and then deleted. */
  readonly record?: VmRecord
  readonly departure: Departure
}

/** A VM whose migration is not decided; its record is there until then. */
export type Undecided = Required<FoundMove>

/** The departures as the nodes see them, each its own. */
export class Moves {
  readonly #context: DepartureContext

  constructor(context: DepartureContext) {
    this.#context = context
  }

  /** Returns the VM that leaves by this migration; `unknown` for any node but the one it is offered to. */
  find({ id, node }: Pick<Move, 'id' | 'node'>): Result<FoundMove, SourceRefusal> {
    const { departures } = this.#context.store
    const record = departures.of(id)
    const departure = record === undefined ? departures.departed(id) : record.departure
    if (departure?.node !== node) return err('unknown')
    return ok(record === undefined ? { departure } : { record, departure })
  }

  /** Returns the VM while its migration is not decided, or why a destination gets nothing of it. */
  undecided(move: Pick<Move, 'id' | 'node'>): Result<Undecided, SourceRefusal> {
    const found = this.find(move)
    if (!found.ok) return found
    const { record, departure } = found.value
    if (departure.stage === 'withdrawn') return err('withdrawn')
    if (record === undefined || departure.stage === 'released') return err('released')
    return ok({ record, departure })
  }

  /** Returns the VM that this attempt may read, or why it may not. */
  readable(move: Move): Result<Undecided, SourceRefusal> {
    const found = this.undecided(move)
    const refusal = found.ok ? refuseRead(found.value.departure, move.arrival) : undefined
    return refusal === undefined ? found : err(refusal)
  }

  /** Stores what follows from a request of a destination, and returns it. It is on the disk after a flush. */
  advance(move: Move, eventOf: (leaving: FoundMove) => DepartureEvent): Result<FoundMove, SourceRefusal> {
    const { store, clock, poke, log } = this.#context
    const nowMs = clock.now()
    const found = this.find(move)
    if (!found.ok) return found
    const { record, departure: before } = found.value
    const after = afterEvent(before, eventOf(found.value), nowMs)
    if (!after.ok) return after
    const departure = after.value
    if (record === undefined || departure === before) return ok({ ...found.value, departure })
    const changed = store.departures.set(record.id, departure, nowMs)
    if (departure.stage !== before.stage) {
      const { id, node, stage } = departure
      log.info({ vm_id: record.id, migration_id: id, to: node, stage }, 'migration advanced')
      poke(record.id, `migration ${stage}`)
    }
    return ok({ record: changed, departure })
  }

  /** Returns whether the migration of a VM is this one, and not decided. */
  isUndecided(id: VmId, { id: migration }: Pick<Move, 'id'>): boolean {
    const departure = this.#context.store.vms.get(id)?.departure
    return departure?.id === migration && isUndecided(departure)
  }
}
