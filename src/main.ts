#!/usr/bin/env node
/** Runs vmhostd in this process. */
import { runCommand } from './daemon/command-line.ts'

void main()

async function main(): Promise<void> {
  process.exitCode = await runCommand(process.argv.slice(2))
}
