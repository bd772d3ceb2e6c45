import type { Snapshot } from '../../client/api-client.ts'

/** A record by name: a status that is added to the API does not compile until it is here. */
const all: Record<Snapshot['status'], true> = {
  pending: true,
  uploading: true,
  completed: true,
  failed: true,
}

export const STATUSES = Object.keys(all) as readonly Snapshot['status'][]
