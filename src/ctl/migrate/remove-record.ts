import { answered, done } from '../../client/api-client.ts'
import { ApiProblem } from '../../client/api-problem.ts'
import { CtlError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { at, hostOf, waitAt } from './hosts.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context, Daemon } from '../command.ts'

/** Says of a record that its guest is not at that host, and never will be by itself. */
export type IsEmpty = (vm: Vm) => boolean

/**
 * Deletes the record of a VM whose guest is elsewhere, and waits until nothing of it is left there. Deletes only a
 * state of which `isEmpty` holds. Throws CtlError.
 */
export async function removeRecord(context: Context, daemon: Daemon, move: Removal): Promise<void> {
  const { id } = move
  await at(daemon, requestRemoval(daemon, move))
  await waitAt(context, daemon, {
    id,
    words: () => `${id}: removing its record at ${hostOf(daemon)}`,
    isOver: () => false,
    missed: `is not removed from ${hostOf(daemon)}`,
    onwards: 'that host keeps removing it',
  })
}

type Removal = {
  readonly id: string
  readonly isEmpty: IsEmpty
  /** Lifts a protection first: it is the guest's, and the guest has it where it is. */
  readonly isForced?: boolean
}

async function requestRemoval(daemon: Daemon, removal: Removal): Promise<void> {
  for (;;) {
    try {
      return await removeOnce(daemon, removal)
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error
      if (error.code === 'not_found') return
      // The record has changed since it was judged.
      if (error.code !== 'precondition_failed') throw error
    }
  }
}

async function removeOnce(daemon: Daemon, { id, isEmpty, isForced = false }: Removal): Promise<void> {
  const { client } = daemon
  const path = { id }
  const { data: vm, etag } = await answered<Vm>(client.GET('/v1/vms/{id}', { params: { path } }))
  if (!isEmpty(vm))
    throw new CtlError(`${id} at ${hostOf(daemon)} is not the record that this migration has left there`, {
      code: 'conflict',
      status: exitStatus.failed,
      advice: [`it stays as it is; see what it is: ${daemon.command} vm get ${id}`],
    })
  let seen = etag
  if (vm.protected && isForced) {
    const params = { path, header: { 'if-match': etag } }
    const body = { protected: false }
    seen = (await answered<Vm>(client.PUT('/v1/vms/{id}/metadata', { params, body }))).etag
  }
  const params = { path, header: { 'if-match': seen } }
  await done(client.DELETE('/v1/vms/{id}', { params }))
}
