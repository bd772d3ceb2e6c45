import { existsSync } from 'node:fs'
import { ensureKeyPair, privateKeyPath } from '../../host/ssh/key-pair.ts'
import type { Config } from '../../config/config.ts'
import type { SetupReport } from './setup-report.ts'

/** Makes the key with which the daemon logs in to guests; keeps an existing one. */
export function ensureSshKey({ stateDirectory, host }: Config, report: SetupReport): void {
  const path = privateKeyPath(stateDirectory)
  const what = 'SSH key for guests, with its .pub'
  const wasThere = existsSync(path)
  ensureKeyPair(stateDirectory, host.id)
  if (wasThere) report.kept(path, what)
  else report.made(path, what)
}
