#!/usr/bin/env node
/** One executable, two programs: as vmhostctl it is the client, under any other name the daemon. */
import { basename } from 'node:path'
import { runCommand } from './daemon/command-line.ts'

void main()

async function main(): Promise<void> {
  // What is loaded here is all that the other program does not pay for. The client runs when it is loaded.
  if (basename(process.argv0) === 'vmhostctl') await import('./ctl-main.ts')
  else process.exitCode = await runCommand(process.argv.slice(2))
}
