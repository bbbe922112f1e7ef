"""Reads a script for PowerShell from standard input and fails where its grammar does not take it: the shell itself is in no registry
of CI's. Needs tree-sitter and tree-sitter-powershell."""

import sys

import tree_sitter
import tree_sitter_powershell

# The grammar lacks a method that takes a block without parentheses, which the shell has had since its version 4.
script = sys.stdin.buffer.read().replace(b".Where{ $_.CompletionText -like \"$wordToComplete*\" }", b".Where({ $_.CompletionText -like \"$wordToComplete*\" })")
tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language())).parse(script)


def wrong(node):
    if node.type == "ERROR" or node.is_missing:
        line, column = node.start_point
        print(f"line {line + 1}, column {column + 1}: {node.text[:80]!r}")
    for child in node.children:
        if child.has_error or child.is_missing:
            wrong(child)


wrong(tree.root_node)
sys.exit(tree.root_node.has_error)
