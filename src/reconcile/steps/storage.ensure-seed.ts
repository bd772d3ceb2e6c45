import type { Executor } from './executor.ts'

/** Afterwards the seed disk is the one that the record renders to. */
export const ensureSeed: Executor<'storage.ensure-seed'> = (_step, { host, record, intent }) =>
  host.storage.ensureSeed(record.id, record.host.userId, intent.seed)
