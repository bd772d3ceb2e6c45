#!/usr/bin/env node
/** One executable, two programs: called as vmhostctl it is the client, under any other name the daemon. */
import { basename } from 'node:path'
import { runCommand } from './daemon/command-line.ts'

void main()

async function main(): Promise<void> {
  // Keep imports here minimal: both programs load this file. The client runs when it is loaded.
  if (basename(process.argv0) === 'vmhostctl') await import('./ctl-main.ts')
  else process.exitCode = await runCommand(process.argv.slice(2))
}
