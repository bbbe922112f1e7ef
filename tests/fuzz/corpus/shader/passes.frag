#version 300 es
#pragma passes 3
precision highp float;
uniform sampler2D u_image0;
uniform int u_pass;
in vec2 v_texCoord;
layout(location = 0) out vec4 fragColor0;
void main() { vec2 d = (u_pass == 1 ? vec2(0.0, 1.0) : vec2(1.0, 0.0)) / vec2(textureSize(u_image0, 0)); vec4 s = vec4(0.0); for (int i = -1; i <= 1; i++) s += texture(u_image0, v_texCoord + d * float(i)) * (i == 0 ? 0.5 : 0.25); fragColor0 = s; }
