import { answered } from '../../client/api-client.ts'
import { exitStatus } from '../exit-status.ts'
import { showMib } from '../units.ts'
import { waitForSnapshot } from './wait-for-snapshot.ts'
import { doneWords, phaseWords } from './snapshot-words.ts'
import type { Answered, Snapshot } from '../../client/api-client.ts'
import type { Context } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Page } from './upload-file.ts'

/** Sends pages of URLs that did not fit into an earlier request. */
export async function handOverPages(context: Context, id: string, pages: readonly Page[]): Promise<void> {
  const params = { path: { id } }
  for (const body of pages)
    await answered(context.client().PUT('/v1/snapshots/{id}/upload', { params, body }))
}

/** Waits for a snapshot if the user asked for it, and shows the result of a change. */
export async function showChanged(
  context: Context,
  { data, status }: Answered<Snapshot>,
): Promise<ExitStatus> {
  const { json, answer, say, given } = context
  if (given.isSet('wait')) return showWaited(context, await waitForSnapshot(context, data.id))
  if (json) answer(data)
  else if (status === 200) say(`${data.id}: nothing to change; ${phaseWords(data)}, ${doneWords(data)}`)
  else say(`${data.id}: taken. To see it through: vmhostctl snapshot wait ${data.id}`)
  return exitStatus.done
}

/** Shows a completed snapshot with the parameters that create a VM from its image. */
export function showWaited({ json, answer, say }: Context, snapshot: Snapshot): ExitStatus {
  const { id, size_mib: size = 0, stored_size_mib: stored = 0, sha256 } = snapshot
  if (json) answer(snapshot)
  else say(`${id}: completed, ${showMib(size)} stored as ${showMib(stored)}, sha256 ${sha256}`)
  return exitStatus.done
}
