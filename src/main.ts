#!/usr/bin/env node
/** The program: picks the command. */
import { runCommand } from './daemon/command-line.ts'

void main()

async function main(): Promise<void> {
  process.exitCode = await runCommand(process.argv.slice(2))
}
